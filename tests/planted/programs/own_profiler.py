"""A custom loop of short steps that somebody left TensorFlow's own profiler on in."""

import tempfile

import tensorflow as tf

from data import Network, rows
from stopwatch import Stopwatch, arguments

options = arguments(__doc__)
watch = Stopwatch(options.seconds)
features, targets = map(tf.constant, rows(32, 32))
network = Network(32, 32, layers=40)
train_step = tf.function(network.train)
folder = tempfile.TemporaryDirectory()

train_step(features, targets)
if not options.mended:
    tf.profiler.experimental.start(folder.name)  # planted
while watch.running():
    train_step(features, targets)
    watch.unit()
watch.finish()
