"""Step until killed: endless.py MILLISECONDS (with the toy TensorFlow), or session or function."""

import sys
import time


def main():
    kind = sys.argv[1]
    step = {"session": session, "function": function}.get(kind, lambda: pausing(float(kind)))()
    while True:
        step()


def pausing(milliseconds):
    """Return a step that does nothing for so long."""
    from tensorflow.python.client.session import BaseSession

    toy = BaseSession()

    def pause():
        if milliseconds >= 1:
            time.sleep(milliseconds / 1e3)
        else:  # the kernel wakes nobody so soon
            ends = time.perf_counter() + milliseconds / 1e3
            while time.perf_counter() < ends:
                pass

    return lambda: toy.run(pause)


def session():
    """Return a step of a small network in a Session."""
    import tensorflow as tf

    tf1 = tf.compat.v1
    tf1.disable_eager_execution()
    loss = tf.reduce_sum(tf.matmul(tf.random.normal([64, 256]), tf.random.normal([256, 64])))
    running = tf1.Session()
    return lambda: running.run(loss)


def function():
    """Return a step of a small network as a tf.function."""
    import tensorflow as tf

    weights = tf.Variable(tf.random.normal([256, 64]))
    batch = tf.random.normal([64, 256])

    @tf.function
    def train():
        weights.assign_sub(0.001 * tf.matmul(batch, tf.matmul(batch, weights), transpose_a=True))

    return train


if __name__ == "__main__":
    main()
