"""A custom loop that asks another program for the machine's load at each step."""

import subprocess

import tensorflow as tf

from data import Network, rows
from stopwatch import Stopwatch, arguments, now

options = arguments(__doc__)
watch = Stopwatch(options.seconds)
features, targets = map(tf.constant, rows(256, 256))
network = Network(256, 512)
train_step = tf.function(network.train)
loads = []

step = 0
while watch.running():
    train_step(features, targets)
    if step % 100 == 0 or not options.mended:
        begun = now()
        loads.append(subprocess.check_output(["cat", "/proc/loadavg"]))  # planted
        watch.took(begun)
    step += 1
    watch.unit()
watch.finish()
