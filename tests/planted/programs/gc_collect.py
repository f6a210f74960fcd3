"""A custom loop that collects garbage after each step, for fear of leaks."""

import gc

import tensorflow as tf

from data import Network, rows
from stopwatch import Stopwatch, arguments, now

options = arguments(__doc__)
watch = Stopwatch(options.seconds)
features, targets = map(tf.constant, rows(256, 256))
network = Network(256, 512)
train_step = tf.function(network.train)

while watch.running():
    train_step(features, targets)
    if not options.mended:
        begun = now()
        gc.collect()  # planted
        watch.took(begun)
    watch.unit()
watch.finish()
