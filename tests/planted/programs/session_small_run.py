"""A Session loop with a step so small that Session.run's own Python counts."""

import tensorflow as tf

from graphs import rows, started, training
from stopwatch import Stopwatch, arguments

options = arguments(__doc__)
watch = Stopwatch(options.seconds)
features, targets = map(tf.constant, rows(8, 8))
train, loss = training(features, targets, 8, 8, layers=1)
metrics = {name: loss * number for number, name in enumerate("abcdefghijklmnopqrst")}
session = started()

fetches = {"train": train, "metrics": metrics, "more": list(metrics.values())}
flat = [train] + list(metrics.values())
run = session.make_callable(flat) if options.mended else lambda: session.run(fetches)  # planted
while watch.running():
    run()
    watch.unit()
watch.finish()
