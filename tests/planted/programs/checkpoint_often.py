"""A custom loop that writes a checkpoint every fifth step."""

import os
import tempfile

import tensorflow as tf

from data import Network, rows
from stopwatch import Stopwatch, arguments, now

options = arguments(__doc__)
watch = Stopwatch(options.seconds)
features, targets = map(tf.constant, rows(128, 512))
network = Network(512, 512)
train_step = tf.function(network.train)
checkpoint = tf.train.Checkpoint(weights=network.weights)
folder = tempfile.TemporaryDirectory()
every = 500 if options.mended else 5

step = 0
while watch.running():
    train_step(features, targets)
    step += 1
    if step % every == 0:
        begun = now()
        checkpoint.write(os.path.join(folder.name, "latest"))  # planted
        watch.took(begun)
    watch.unit()
watch.finish()
