"""A Session loop that writes histograms of all weights at each step."""

import tempfile

import tensorflow as tf

from graphs import rows, started, training
from stopwatch import Stopwatch, arguments

options = arguments(__doc__)
watch = Stopwatch(options.seconds)
features, targets = map(tf.constant, rows(128, 256))
train, loss = training(features, targets, 256, 512)
for weights in tf.trainable_variables():
    tf.summary.histogram(weights.op.name, weights)
merged = tf.summary.merge_all()
session = started()
folder = tempfile.TemporaryDirectory()
writer = tf.summary.FileWriter(folder.name)

step = 0
while watch.running():
    if step % 1000 == 0 or not options.mended:  # planted
        summary = session.run([train, merged])[1]
        writer.add_summary(summary, step)
    else:
        session.run(train)
    step += 1
    watch.unit()
watch.finish()
