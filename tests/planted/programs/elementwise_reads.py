"""A custom loop that reads the loss of each example of a batch, one after the other."""

import tensorflow as tf

from data import Network, rows
from stopwatch import Stopwatch, arguments, now

options = arguments(__doc__)
watch = Stopwatch(options.seconds)
features, targets = map(tf.constant, rows(512, 256))
network = Network(256, 512)
losses = {}


@tf.function
def train_step(features, targets):
    network.train(features, targets)
    return tf.square(network.predict(features) - targets)[:, 0]


while watch.running():
    errors = train_step(features, targets)
    begun = now()
    if options.mended:
        losses.update(enumerate(errors.numpy().tolist()))
    else:
        losses.update((row, float(errors[row])) for row in range(512))  # planted
    watch.took(begun)
    watch.unit()
watch.finish()
