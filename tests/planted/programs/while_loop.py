"""A running mean over a sequence by a while loop with a few tiny ops for each element."""

import tensorflow as tf

from data import Network, rows
from stopwatch import Stopwatch, arguments

options = arguments(__doc__)
watch = Stopwatch(options.seconds)
features, targets = map(tf.constant, rows(256, 512))
network = Network(512, 512)


def running_mean(features):
    if options.mended:
        counts = tf.range(1, features.shape[1] + 1, dtype=tf.float32)
        return tf.cumsum(features, axis=1) / counts
    columns = tf.TensorArray(tf.float32, size=features.shape[1])
    column, total = 0, tf.zeros([features.shape[0]])

    def add(column, total, columns):
        total = total + features[:, column]
        mean = total / tf.cast(column + 1, tf.float32)
        return column + 1, total, columns.write(column, mean)

    def is_left(column, total, columns):
        return column < features.shape[1]

    columns = tf.while_loop(is_left, add, (column, total, columns))[2]  # planted
    return tf.transpose(columns.stack())


@tf.function
def train_step(features, targets):
    return network.train(running_mean(features), targets)


while watch.running():
    train_step(features, targets)
    watch.unit()
watch.finish()
