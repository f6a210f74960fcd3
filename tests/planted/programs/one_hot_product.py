"""Rows of a table are looked up by a product with one-hot vectors."""

import numpy as np
import tensorflow as tf

from stopwatch import Stopwatch, arguments

options = arguments(__doc__)
watch = Stopwatch(options.seconds)
random = np.random.RandomState(1)
table = tf.Variable(tf.random.normal([20000, 64]))
mixing = tf.Variable(tf.random.normal([64, 64], stddev=0.1))


def look_up(words):
    if options.mended:
        return tf.gather(table, words)
    return tf.matmul(tf.one_hot(words, 20000), table)  # planted


@tf.function
def train_step(words):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(tf.matmul(look_up(words), mixing) - 0.1))
    mixing.assign_sub(0.01 * tape.gradient(loss, mixing))
    return loss


batches = [tf.constant(random.randint(0, 20000, size=256)) for _ in range(20)]
step = 0
while watch.running():
    train_step(batches[step % 20])
    step += 1
    watch.unit()
watch.finish()
