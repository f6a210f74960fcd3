"""A tiny Keras model that is trained one batch a call."""

import tensorflow as tf

from models import arrays, compiled, epochs_of
from stopwatch import Stopwatch, arguments, time_limit

options = arguments(__doc__)
watch = Stopwatch(options.seconds)
STEPS = 320
model = compiled(16, 16, layers=1, steps_per_execution=32 if options.mended else 1)
model.fit(  # planted
    epochs_of(*arrays(512, 16), batch=16, steps=STEPS),
    epochs=10000,
    verbose=0,
    callbacks=[time_limit(watch, STEPS, tf.keras.callbacks.Callback)],
)
watch.finish()
