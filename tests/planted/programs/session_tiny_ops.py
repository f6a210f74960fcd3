"""A Session whose graph computes each row of a batch by ops of its own."""

import tensorflow as tf

from graphs import rows, started
from stopwatch import Stopwatch, arguments

options = arguments(__doc__)
watch = Stopwatch(options.seconds)
features, targets = rows(256, 32)
fed = tf.placeholder(tf.float32, [256, 32])
weights = tf.get_variable("weights", [32, 1])
if options.mended:
    errors = tf.square(tf.matmul(fed, weights) - targets)
else:
    outputs = [tf.matmul(fed[row : row + 1], weights) for row in range(256)]  # planted
    errors = tf.square(tf.concat(outputs, axis=0) - targets)
train = tf.train.GradientDescentOptimizer(0.01).minimize(tf.reduce_mean(errors))
session = started()

while watch.running():
    session.run(train, {fed: features})
    watch.unit()
watch.finish()
