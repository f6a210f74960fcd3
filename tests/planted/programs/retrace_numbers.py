"""A custom loop hands its compiled step the step number as a Python number."""

import tensorflow as tf

from data import Network, rows
from stopwatch import Stopwatch, arguments

options = arguments(__doc__)
watch = Stopwatch(options.seconds)
features, targets = rows(256, 128)
network = Network(128, 256, layers=4)


@tf.function
def train_step(features, targets, step):
    rate = 0.01 / (1.0 + 0.001 * tf.cast(step, tf.float32))
    return network.train(features, targets, rate)


features, targets = tf.constant(features), tf.constant(targets)
step = 0
while watch.running():
    number = tf.constant(step) if options.mended else step
    train_step(features, targets, number)  # planted
    step += 1
    watch.unit()
watch.finish()
