"""A custom loop that computes the norm of each weight eagerly after each step, and reads it."""

import tensorflow as tf

from data import Network, rows
from stopwatch import Stopwatch, arguments, now

options = arguments(__doc__)
watch = Stopwatch(options.seconds)
features, targets = map(tf.constant, rows(128, 128))
network = Network(128, 128, layers=20)
train_step = tf.function(network.train)
norms = []

step = 0
while watch.running():
    train_step(features, targets)
    if step % 100 == 0 or not options.mended:
        begun = now()
        norms.append([float(tf.norm(weights)) for weights in network.weights])  # planted
        watch.took(begun)
    step += 1
    watch.unit()
watch.finish()
