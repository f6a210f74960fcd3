"""A TensorFlow 1 user's own tf.contrib.tfprof.ProfileContext around a Session loop."""

import os
import tempfile

import tensorflow as tf


def main():
    counter = tf.get_variable("counter", [], initializer=tf.zeros_initializer())
    step = tf.assign_add(counter, 1.0)
    with tempfile.TemporaryDirectory() as folder:
        profiled = tf.contrib.tfprof.ProfileContext
        context = profiled(folder, trace_steps=range(5, 9), dump_steps=[9])
        with context, tf.Session() as session:
            session.run(tf.global_variables_initializer())
            print([float(session.run(step)) for _ in range(20)][-1])
        print(sorted(os.listdir(folder)))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        print([float(session.run(step)) for _ in range(20)][-1])


if __name__ == "__main__":
    main()
