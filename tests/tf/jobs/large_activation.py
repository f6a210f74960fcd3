"""A step whose memory is known: two products of 8 MiB each live at once, in a scope of their own.

In TensorFlow 1 a Session takes the steps, in TensorFlow 2 a function.
"""

import numpy
import tensorflow as tf

STEPS = 12
ROWS, COLUMNS = 1024, 2048


def step(left, right):
    with tf.name_scope("big"):
        first = tf.matmul(left, right, name="first")
        second = tf.matmul(left, first, name="second")
        return tf.reduce_sum(tf.tanh(second, name="third") * first, name="total")


def main():
    left = numpy.ones([ROWS, ROWS], numpy.float32)
    right = numpy.ones([ROWS, COLUMNS], numpy.float32)
    if tf.__version__.startswith("1."):
        total = step(tf.constant(left), tf.compat.v1.placeholder(tf.float32, right.shape, "fed"))
        with tf.compat.v1.Session() as session:
            for _ in range(STEPS):
                session.run(total, {"fed:0": right})
        return
    function = tf.function(step)
    left, right = tf.constant(left), tf.constant(right)
    for _ in range(STEPS):
        function(left, right)


if __name__ == "__main__":
    main()
