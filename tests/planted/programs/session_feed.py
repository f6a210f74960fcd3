"""A Session that is fed a large array of doubles at each step."""

import numpy as np
import tensorflow as tf

from graphs import started, training
from stopwatch import Stopwatch, arguments

options = arguments(__doc__)
watch = Stopwatch(options.seconds)
images = np.random.RandomState(1).rand(512, 16384)
fed = tf.placeholder(tf.float32, [None, 16384])
kept = tf.Variable(images.astype("float32"), trainable=False)
batch = kept if options.mended else fed
train, loss = training(batch[:, :256], tf.zeros([512, 1]), 256, 256)
session = started()

while watch.running():
    session.run(train, {} if options.mended else {fed: images})  # planted
    watch.unit()
watch.finish()
