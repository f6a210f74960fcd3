"""A Session loop that prints its weights at each step."""

import os

import numpy as np
import tensorflow as tf

from graphs import rows, started, training
from stopwatch import Stopwatch, arguments, now

options = arguments(__doc__)
watch = Stopwatch(options.seconds)
features, targets = map(tf.constant, rows(128, 256))
train, loss = training(features, targets, 256, 256)
output = tf.trainable_variables()[-1]
session = started()
log = open(os.devnull, "w")
np.set_printoptions(threshold=10**6)

step = 0
while watch.running():
    weights = session.run([train, output])[1]
    if step % 100 == 0 or not options.mended:
        begun = now()
        print("step", step, "weights", weights, file=log, flush=True)  # planted
        watch.took(begun)
    step += 1
    watch.unit()
watch.finish()
