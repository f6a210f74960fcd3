"""An embedding that is normalised as a whole before a few of its rows are looked up."""

import numpy as np
import tensorflow as tf

from stopwatch import Stopwatch, arguments

options = arguments(__doc__)
watch = Stopwatch(options.seconds)
random = np.random.RandomState(1)
table = tf.Variable(tf.random.normal([200000, 32]))
optimizer = tf.keras.optimizers.SGD(0.01)
optimizer.build([table])


def look_up(words):
    if options.mended:
        return tf.nn.l2_normalize(tf.gather(table, words), axis=1)
    return tf.gather(tf.nn.l2_normalize(table, axis=1), words)  # planted


@tf.function
def train_step(words):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.square(look_up(words) - 0.1))
    gradient = tape.gradient(loss, table)
    optimizer.apply_gradients([(gradient, table)])
    return loss


batches = [tf.constant(random.randint(0, 200000, size=2048)) for _ in range(20)]
step = 0
while watch.running():
    train_step(batches[step % 20])
    step += 1
    watch.unit()
watch.finish()
