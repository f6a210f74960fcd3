"""Run Sessions that wait for their input: by a queue, by feeds, by an iterator."""

import time

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1
tf1.disable_eager_execution()

STEPS = 40


def slow_element():
    def make():
        time.sleep(0.004)
        return np.ones([16], np.float32)

    element = tf1.py_func(make, [], tf.float32)
    element.set_shape([16])
    return element


def by_queue():
    batch = tf1.train.batch([slow_element()], batch_size=2, name="slow_queue")
    result = tf.reduce_sum(batch, name="by_queue")
    with tf1.Session() as session:
        coordinator = tf1.train.Coordinator()
        threads = tf1.train.start_queue_runners(session, coordinator)
        for _ in range(STEPS):
            session.run(result)
        coordinator.request_stop()
        coordinator.join(threads, stop_grace_period_secs=20)


def by_feed():
    inputs = tf1.placeholder(tf.float32, [None, 1000])
    result = tf.reduce_sum(inputs[:1], name="by_feed")
    # Lists have to be converted at each step: what many programs do without knowing.
    rows = np.ones([200, 1000], np.float32).tolist()
    with tf1.Session() as session:
        for _ in range(STEPS):
            session.run(result, {inputs: rows})


def by_iterator():
    data = tf.data.Dataset.from_tensors(0).repeat().map(lambda _: slow_element())
    iterator = tf1.data.make_initializable_iterator(data)
    result = tf.reduce_sum(iterator.get_next(), name="by_iterator")
    with tf1.Session() as session:
        session.run(iterator.initializer)
        for _ in range(STEPS):
            session.run(result)


def main():
    for job in (by_queue, by_feed, by_iterator):
        with tf.Graph().as_default():
            job()


if __name__ == "__main__":
    main()
