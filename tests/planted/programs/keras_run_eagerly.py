"""A Keras model that is compiled to run eagerly."""

import tensorflow as tf

from models import arrays, compiled, epochs_of
from stopwatch import Stopwatch, arguments, time_limit

options = arguments(__doc__)
watch = Stopwatch(options.seconds)
STEPS = 25
eagerly = not options.mended
model = compiled(128, 128, layers=4, run_eagerly=eagerly)
model.fit(  # planted
    epochs_of(*arrays(1024, 128), batch=64, steps=STEPS),
    epochs=10000,
    verbose=0,
    callbacks=[time_limit(watch, STEPS, tf.keras.callbacks.Callback)],
)
watch.finish()
