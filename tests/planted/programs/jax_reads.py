"""A loop that reads the norms and extremes of all weights at each step, one by one."""

import jax.numpy as jnp

from jax_models import network, rows, train_step
from stopwatch import Stopwatch, arguments, now

options = arguments(__doc__)
watch = Stopwatch(options.seconds)
features, targets = rows(64, 128)
weights = network(128, layers=12)
history = {}


def note(weights):
    for number, layer in enumerate(weights):
        read = float(jnp.linalg.norm(layer)), float(layer.min()), float(layer.max())  # planted
        history[number] = read


train_step(weights, features, targets)
note(weights)
while watch.running():
    weights, loss = train_step(weights, features, targets)
    loss = float(loss)
    if not options.mended:
        begun = now()
        note(weights)
        watch.took(begun)
    watch.unit()
watch.finish()
