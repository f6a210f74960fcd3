"""A loop that makes each batch row by row in Python, between two steps."""

import numpy as np

from jax_models import network, rows, train_step
from stopwatch import Stopwatch, arguments, now

options = arguments(__doc__)
watch = Stopwatch(options.seconds)
WIDTH = 128
features, targets = rows(512, WIDTH)
weights = network(WIDTH, layers=6)
random = np.random.RandomState(2)


def decoded(row):
    text = " ".join("%.4f" % value for value in row.tolist())
    return [float(word) for word in text.split()]


def batch():
    wanted = random.randint(0, len(features), size=64)
    if options.mended:
        return features[wanted], targets[wanted]
    made = [decoded(features[each]) for each in wanted]
    return np.array(made, "float32"), targets[wanted]


train_step(weights, *batch())
while watch.running():
    begun = now()
    inputs, outputs = batch()  # planted
    if not options.mended:
        watch.took(begun)
    weights, loss = train_step(weights, inputs, outputs)
    loss = float(loss)
    watch.unit()
watch.finish()
