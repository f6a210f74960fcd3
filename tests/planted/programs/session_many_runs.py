"""A Session loop that reads each weight's mean by a run of its own after each step."""

import tensorflow as tf

from graphs import rows, started, training
from stopwatch import Stopwatch, arguments, now

options = arguments(__doc__)
watch = Stopwatch(options.seconds)
features, targets = map(tf.constant, rows(64, 64))
train, loss = training(features, targets, 64, 64, layers=20)
means = [tf.reduce_mean(weights) for weights in tf.trainable_variables()]
session = started()

while watch.running():
    if options.mended:
        session.run([train, means])
    else:
        session.run(train)
        begun = now()
        values = [session.run(mean) for mean in means]  # planted
        watch.took(begun)
    watch.unit()
watch.finish()
