"""A custom loop that shares a lock with a thread which holds it while it writes statistics."""

import json
import os
import threading
import time

import tensorflow as tf

from data import Network, rows
from stopwatch import Stopwatch, arguments, now

options = arguments(__doc__)
watch = Stopwatch(options.seconds)
features, targets = map(tf.constant, rows(256, 256))
network = Network(256, 512)
train_step = tf.function(network.train)
lock = threading.Lock()
losses = []


def upload(values):
    with open(os.devnull, "w") as service:
        json.dump(values, service)
    time.sleep(0.03)


def report_losses():
    while True:
        with lock:
            last = losses[-100:]
            if not options.mended:
                upload(last)
        if options.mended:
            upload(last)
        time.sleep(0.005)


threading.Thread(target=report_losses, daemon=True).start()
while watch.running():
    loss = float(train_step(features, targets))
    begun = now()
    lock.acquire()  # planted
    watch.took(begun)
    losses.append(loss)
    lock.release()
    watch.unit()
watch.finish()
