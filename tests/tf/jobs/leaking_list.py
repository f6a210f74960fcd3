"""Each step makes a tensor of 256 KiB; with the argument "leak" a list keeps them all.

Takes its time, for a process is measured once a second.
"""

import sys
import time

import numpy
import tensorflow as tf

STEPS = 1100
STEP_S = 0.02
SIZE = 65536


def main():
    kept = []
    if tf.__version__.startswith("1."):
        fed = tf.compat.v1.placeholder(tf.float32, [SIZE])
        made = fed + 1.0
        with tf.compat.v1.Session() as session:
            loop(lambda value: session.run(made, {fed: value}), kept)
        return
    loop(tf.function(lambda value: value + 1.0), kept)


def loop(step, kept):
    value = numpy.zeros([SIZE], numpy.float32)
    for _ in range(STEPS):
        made = step(value)
        if sys.argv[1] == "leak":
            kept.append(made)
        time.sleep(STEP_S)


if __name__ == "__main__":
    main()
