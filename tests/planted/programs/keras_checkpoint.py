"""Keras' ModelCheckpoint writes the weights every fifth batch."""

import os
import tempfile

import tensorflow as tf

from models import arrays, compiled, epochs_of
from stopwatch import Stopwatch, arguments, time_limit

options = arguments(__doc__)
watch = Stopwatch(options.seconds)
STEPS = 50
folder = tempfile.TemporaryDirectory()
path = os.path.join(folder.name, "latest.weights.h5")
every = 1000 if options.mended else 5
saving = {"save_freq": every, "save_weights_only": True}
checkpoint = tf.keras.callbacks.ModelCheckpoint(path, **saving)
model = compiled(256, 512)
model.fit(  # planted
    epochs_of(*arrays(1024, 256), batch=128, steps=STEPS),
    epochs=10000,
    verbose=0,
    callbacks=[checkpoint, time_limit(watch, STEPS, tf.keras.callbacks.Callback)],
)
watch.finish()
