"""A Keras model is validated on much data behind each short epoch."""

import tensorflow as tf

from models import arrays, compiled, epochs_of
from stopwatch import Stopwatch, arguments, now, time_limit

options = arguments(__doc__)
watch = Stopwatch(options.seconds)
STEPS = 40


class Watched(tf.keras.callbacks.Callback):
    def on_test_begin(self, logs=None):
        self.begun = now()

    def on_test_end(self, logs=None):
        watch.took(self.begun)


model = compiled(256, 512)
model.fit(
    epochs_of(*arrays(1024, 256), batch=64, steps=STEPS),
    epochs=10000,
    verbose=0,
    validation_data=epochs_of(*arrays(1024, 256), batch=64, steps=400),  # planted
    validation_freq=100 if options.mended else 1,
    callbacks=[Watched(), time_limit(watch, STEPS, tf.keras.callbacks.Callback)],
)
watch.finish()
