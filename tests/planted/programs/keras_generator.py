"""Keras is fed by a generator that makes each row of a batch in Python."""

import numpy as np
import tensorflow as tf

from models import arrays, compiled
from stopwatch import Stopwatch, arguments, now, time_limit

options = arguments(__doc__)
watch = Stopwatch(options.seconds)
STEPS = 50
features, targets = arrays(2048, 256)


def scaled(row):
    values = sorted(float(value) for value in row)
    median, spread = values[len(values) // 2], values[-1] - values[0]
    return [(float(value) - median) / spread for value in row]


def batches():
    while True:
        for at in range(0, len(features), 64):
            rows = features[at : at + 64]
            begun = now()
            if options.mended:
                batch = rows
            else:
                batch = np.array([scaled(row) for row in rows], "float32")  # planted
            watch.took(begun)
            yield batch, targets[at : at + 64]


if options.mended:
    spread = np.ptp(features, axis=1, keepdims=True)
    features = (features - np.median(features, axis=1, keepdims=True)) / spread
model = compiled(256, 512, layers=3)
model.fit(
    batches(),
    steps_per_epoch=STEPS,
    epochs=10000,
    verbose=0,
    callbacks=[time_limit(watch, STEPS, tf.keras.callbacks.Callback)],
)
watch.finish()
