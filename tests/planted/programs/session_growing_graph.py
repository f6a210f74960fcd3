"""A Session loop that adds ops to its graph at each step."""

import tensorflow as tf

from graphs import rows, started, training
from stopwatch import Stopwatch, arguments, now

options = arguments(__doc__)
watch = Stopwatch(options.seconds)
features, targets = map(tf.constant, rows(128, 256))
train, loss = training(features, targets, 256, 256)
rate = tf.get_variable("rate", [], initializer=tf.zeros_initializer(), trainable=False)
given = tf.placeholder(tf.float32, [])
set_rate = rate.assign(given)
session = started()

step = 0
while watch.running():
    session.run(train)
    begun = now()
    if options.mended:
        session.run(set_rate, {given: 1.0 / (1 + step)})
    else:
        session.run(rate.assign(1.0 / (1 + step)))  # planted
        watch.took(begun)
    step += 1
    watch.unit()
watch.finish()
