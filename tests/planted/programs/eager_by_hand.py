"""A custom loop that computes its step eagerly and updates its weights by hand."""

import tensorflow as tf

from data import Network, rows
from stopwatch import Stopwatch, arguments

options = arguments(__doc__)
watch = Stopwatch(options.seconds)
features, targets = map(tf.constant, rows(64, 64))
network = Network(64, 64, layers=6)


def train_step(features, targets):
    return network.train(features, targets)


if options.mended:
    train_step = tf.function(train_step)
while watch.running():
    train_step(features, targets)  # planted
    watch.unit()
watch.finish()
