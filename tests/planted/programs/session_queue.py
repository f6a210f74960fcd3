"""A Session that takes its batches from a queue; one Python thread fills it, slowly."""

import threading
import time

import tensorflow as tf

from graphs import rows, started, training
from stopwatch import Stopwatch, arguments

options = arguments(__doc__)
watch = Stopwatch(options.seconds)
features, targets = rows(64, 256)
batches = tf.FIFOQueue(32, ["float32", "float32"], [[64, 256], [64, 1]])
fed = [tf.placeholder("float32", [64, 256]), tf.placeholder("float32", [64, 1])]
enqueue = batches.enqueue(fed)
train, loss = training(*batches.dequeue(), width=256, hidden=512)
session = started()


def read_from_storage():
    time.sleep(0.02)  # planted
    return features, targets


def fill():
    while True:
        session.run(enqueue, dict(zip(fed, read_from_storage())))


for _ in range(12 if options.mended else 1):
    threading.Thread(target=fill, daemon=True).start()
while watch.running():
    session.run(train)
    watch.unit()
watch.finish()
