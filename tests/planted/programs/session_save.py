"""A Session loop that saves its variables every tenth step."""

import os
import tempfile

import tensorflow as tf

from graphs import rows, started, training
from stopwatch import Stopwatch, arguments, now

options = arguments(__doc__)
watch = Stopwatch(options.seconds)
features, targets = map(tf.constant, rows(128, 512))
train, loss = training(features, targets, 512, 512)
saver = tf.train.Saver(max_to_keep=2)
session = started()
folder = tempfile.TemporaryDirectory()
every = 1000 if options.mended else 10

step = 0
while watch.running():
    session.run(train)
    step += 1
    if step % every == 0:
        begun = now()
        saver.save(session, os.path.join(folder.name, "model"), global_step=step)  # planted
        watch.took(begun)
    watch.unit()
watch.finish()
