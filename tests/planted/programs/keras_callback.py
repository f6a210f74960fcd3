"""A Keras callback that makes histograms of all weights behind each batch."""

import numpy as np
import tensorflow as tf

from models import arrays, compiled, epochs_of
from stopwatch import Stopwatch, arguments, now, time_limit

options = arguments(__doc__)
watch = Stopwatch(options.seconds)
STEPS = 100


class Histograms(tf.keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):  # planted
        if options.mended and batch != STEPS - 1:
            return
        begun = now()
        self.counts = [np.histogram(weights, 50)[0] for weights in self.model.get_weights()]
        watch.took(begun)


model = compiled(128, 256, layers=3)
model.fit(
    epochs_of(*arrays(1024, 128), batch=64, steps=STEPS),
    epochs=10000,
    verbose=0,
    callbacks=[Histograms(), time_limit(watch, STEPS, tf.keras.callbacks.Callback)],
)
watch.finish()
