"""A Session loop in which something happens: a checkpoint every 50 steps, and one slow step."""

import os
import tempfile
import time

import numpy as np
import tensorflow as tf

STEPS = 400
SAVED_EVERY = 50
SLOW_STEP = 333
SLOW_S = 0.5
tf1 = tf.compat.v1


def main():
    tf1.disable_eager_execution()

    def wait(step):
        if step == SLOW_STEP:
            time.sleep(SLOW_S)
        return np.float32(1)

    number = tf1.placeholder(tf.int64, [], name="number")
    weights = tf1.get_variable("weights", [400, 400], tf.float32)
    waited = tf1.py_func(wait, [number], tf.float32)
    train = tf1.assign_add(weights, tf.zeros([400, 400]) * waited, name="train")
    saver = tf1.train.Saver()
    path = os.path.join(tempfile.mkdtemp(), "model")
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        for step in range(STEPS):
            session.run(train.op if hasattr(train, "op") else train, {number: step})
            if step % SAVED_EVERY == SAVED_EVERY - 1:
                saver.save(session, path)


if __name__ == "__main__":
    main()
