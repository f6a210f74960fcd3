"""A Session loop whose steps multiply matrices: paced.py [--times N] does so N times as often."""

import sys

import numpy as np
import tensorflow as tf

TIMES = int(sys.argv[sys.argv.index("--times") + 1]) if "--times" in sys.argv else 1
# The same time in all, long enough for the bursts of a busy machine to be a part of it.
STEPS = 1600 // TIMES
SIZE = 256
tf1 = tf.compat.v1


def main():
    tf1.disable_eager_execution()
    rows = tf1.placeholder(tf.float32, [SIZE, SIZE], name="rows")
    found = rows
    for _ in range(4 * TIMES):
        found = tf.tanh(tf.matmul(found, rows))
    total = tf.reduce_sum(found, name="total")
    value = np.full((SIZE, SIZE), 0.01, np.float32)
    config = tf1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    with tf1.Session(config=config) as session:
        for _ in range(STEPS):
            session.run(total, {rows: value})


if __name__ == "__main__":
    main()
