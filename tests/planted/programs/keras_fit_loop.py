"""A loop that calls fit for each batch that comes in."""

import tensorflow as tf

from models import arrays, compiled, epochs_of
from stopwatch import Stopwatch, arguments, now, time_limit

options = arguments(__doc__)
watch = Stopwatch(options.seconds)
STEPS = 200
features, targets = arrays(2048, 128)
model = compiled(128, 128)

if options.mended:
    model.fit(
        epochs_of(features, targets, batch=64, steps=STEPS),
        epochs=10000,
        verbose=0,
        callbacks=[time_limit(watch, STEPS, tf.keras.callbacks.Callback)],
    )
while not options.mended and watch.running():
    for at in range(0, len(features), 64):
        begun = now()
        model.fit(features[at : at + 64], targets[at : at + 64], verbose=0)  # planted
        watch.took(begun)
        watch.unit()
watch.finish()
