"""A custom loop that computes its step eagerly, with an optimizer of Keras."""

import tensorflow as tf

from data import Network, rows
from stopwatch import Stopwatch, arguments

options = arguments(__doc__)
watch = Stopwatch(options.seconds)
features, targets = map(tf.constant, rows(64, 64))
network = Network(64, 64, layers=6)


optimizer = tf.keras.optimizers.SGD(0.01)
optimizer.build(network.weights)


def train_step(features, targets):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(network.predict(features) - targets))
    gradients = tape.gradient(loss, network.weights)
    optimizer.apply_gradients(zip(gradients, network.weights))
    return loss


if options.mended:
    train_step = tf.function(train_step)
while watch.running():
    train_step(features, targets)  # planted
    watch.unit()
watch.finish()
