"""A Session with 64 threads on whatever machine it comes to."""

import tensorflow as tf

from graphs import rows, started, training
from stopwatch import Stopwatch, arguments

options = arguments(__doc__)
watch = Stopwatch(options.seconds)
features, targets = map(tf.constant, rows(256, 512))
train, loss = training(features, targets, 512, 512, layers=4)
threads = 0 if options.mended else 64
settings = tf.ConfigProto(intra_op_parallelism_threads=threads)  # planted
session = started(config=settings)

while watch.running():
    session.run(train)
    watch.unit()
watch.finish()
