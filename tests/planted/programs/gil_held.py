"""A custom loop of short steps beside a thread that computes in Python all the time."""

import threading
import time

import numpy as np
import tensorflow as tf

from data import Network, rows
from stopwatch import Stopwatch, arguments

options = arguments(__doc__)
watch = Stopwatch(options.seconds)
features, targets = map(tf.constant, rows(64, 64))
network = Network(64, 64)
train_step = tf.function(network.train)
history = list(range(5000))


def statistics():
    while True:
        if options.mended:
            np.median(history)
            time.sleep(1)
        else:
            sum(value * value % 7 for value in history)  # planted


threading.Thread(target=statistics, daemon=True).start()
while watch.running():
    train_step(features, targets)
    watch.unit()
watch.finish()
