"""A Keras callback draws the weights as a picture, in Python, at the end of each epoch."""

import os

import tensorflow as tf

from models import arrays, compiled, epochs_of
from stopwatch import Stopwatch, arguments, now, time_limit

options = arguments(__doc__)
watch = Stopwatch(options.seconds)
STEPS = 25


class Picture(tf.keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        if epoch % (200 if options.mended else 1) == 0:
            begun = now()
            self.draw(self.model.get_weights()[0])  # planted
            watch.took(begun)

    def draw(self, weights):
        largest = float(abs(weights).max())
        with open(os.devnull, "w") as picture:
            for row in weights:
                for value in row:
                    picture.write("%d " % (255 * (float(value) / largest + 1) / 2))


model = compiled(512, 768)
model.fit(
    epochs_of(*arrays(1024, 512), batch=64, steps=STEPS),
    epochs=10000,
    verbose=0,
    callbacks=[Picture(), time_limit(watch, STEPS, tf.keras.callbacks.Callback)],
)
watch.finish()
