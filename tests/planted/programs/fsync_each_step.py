"""A custom loop that writes its metrics through to the disk at each step."""

import json
import os
import tempfile

import tensorflow as tf

from data import Network, rows
from stopwatch import Stopwatch, arguments, now

options = arguments(__doc__)
watch = Stopwatch(options.seconds)
features, targets = map(tf.constant, rows(64, 64))
network = Network(64, 64)
train_step = tf.function(network.train)
metrics = tempfile.NamedTemporaryFile("w", suffix=".jsonl")


def log(step, loss):
    metrics.write(json.dumps({"step": step, "loss": loss}) + "\n")
    if not options.mended:
        metrics.flush()
        begun = now()
        os.fsync(metrics.fileno())  # planted
        watch.took(begun)


step = 0
while watch.running():
    loss = train_step(features, targets)
    log(step, float(loss))
    step += 1
    watch.unit()
watch.finish()
