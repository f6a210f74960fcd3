"""A Session loop that sleeps after each step, to be kind to others."""

import time

import tensorflow as tf

from graphs import rows, started, training
from stopwatch import Stopwatch, arguments, now

options = arguments(__doc__)
watch = Stopwatch(options.seconds)
features, targets = map(tf.constant, rows(128, 256))
train, loss = training(features, targets, 256, 512)
session = started()

while watch.running():
    session.run(train)
    if not options.mended:
        begun = now()
        time.sleep(0.01)  # planted
        watch.took(begun)
    watch.unit()
watch.finish()
