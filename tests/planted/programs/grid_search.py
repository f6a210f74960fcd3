"""A search over learning rates that builds and compiles a new model for each."""

import numpy as np
import tensorflow as tf

from models import arrays, compiled
from stopwatch import Stopwatch, arguments

options = arguments(__doc__)
watch = Stopwatch(options.seconds)
features, targets = arrays(2048, 64)
data = tf.data.Dataset.from_tensor_slices((features, targets)).batch(64).cache().prefetch(2)
losses = {}
model = None

while watch.running():
    rate = float(10 ** np.random.uniform(-4, -1))
    if model is None or not options.mended:
        model = compiled(64, 128, layers=3)
        weights = model.get_weights()
    model.set_weights(weights)
    model.optimizer.learning_rate.assign(rate)
    losses[rate] = model.fit(data, epochs=3, verbose=0).history["loss"][-1]  # planted
    watch.unit()
watch.finish()
