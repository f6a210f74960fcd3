"""A loop that logs each loss to a file that it flushes to disk."""

import os
import tempfile

from jax_models import network, rows, train_step
from stopwatch import Stopwatch, arguments, now

options = arguments(__doc__)
watch = Stopwatch(options.seconds)
features, targets = rows(64, 256)
weights = network(256)
log = tempfile.TemporaryFile("w")


def note(loss):
    log.write("%.6f\n" % loss)
    log.flush()
    os.fsync(log.fileno())  # planted


train_step(weights, features, targets)
while watch.running():
    weights, loss = train_step(weights, features, targets)
    loss = float(loss)
    if not options.mended:
        begun = now()
        note(loss)
        watch.took(begun)
    watch.unit()
watch.finish()
