"""A custom loop that stands still for a third of a second every fiftieth step."""

import time

import tensorflow as tf

from data import Network, rows
from stopwatch import Stopwatch, arguments, now

options = arguments(__doc__)
watch = Stopwatch(options.seconds)
features, targets = map(tf.constant, rows(256, 256))
network = Network(256, 512)
train_step = tf.function(network.train)


def wait_for_quota():
    time.sleep(0.3)


step = 0
while watch.running():
    train_step(features, targets)
    step += 1
    if step % 50 == 0 and not options.mended:
        begun = now()
        wait_for_quota()  # planted
        watch.took(begun)
    watch.unit()
watch.finish()
