"""A loop whose batches are as long as their longest sentence: a shape for each length."""

import numpy as np

from jax_models import network, rows, train_step
from stopwatch import Stopwatch, arguments

options = arguments(__doc__)
watch = Stopwatch(options.seconds)
features, targets = rows(600, 64)
weights = network(64)
random = np.random.RandomState(2)

while watch.running():
    length = 600 if options.mended else random.randint(20, 600)
    weights, loss = train_step(weights, features[:length], targets[:length])  # planted
    loss = float(loss)
    watch.unit()
watch.finish()
