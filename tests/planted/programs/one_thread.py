"""TensorFlow may use one thread within an op, on a machine that has more CPUs."""

import tensorflow as tf

from data import Network, rows
from stopwatch import Stopwatch, arguments

options = arguments(__doc__)
watch = Stopwatch(options.seconds)
if not options.mended:
    tf.config.threading.set_intra_op_parallelism_threads(1)  # planted
features, targets = map(tf.constant, rows(512, 1024))
network = Network(1024, 1024)
train_step = tf.function(network.train)

while watch.running():
    train_step(features, targets)
    watch.unit()
watch.finish()
