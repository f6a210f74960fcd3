"""Keras' TensorBoard callback writes histograms and images of all weights in short epochs."""

import tempfile

import tensorflow as tf

from models import arrays, compiled, epochs_of
from stopwatch import Stopwatch, arguments, time_limit

options = arguments(__doc__)
watch = Stopwatch(options.seconds)
STEPS = 40
folder = tempfile.TemporaryDirectory()
often = {"histogram_freq": 0} if options.mended else {"histogram_freq": 1, "write_images": True}
summaries = tf.keras.callbacks.TensorBoard(folder.name, write_graph=False, **often)
model = compiled(256, 512, layers=4)
model.fit(  # planted
    epochs_of(*arrays(1024, 256), batch=64, steps=STEPS),
    epochs=10000,
    verbose=0,
    callbacks=[summaries, time_limit(watch, STEPS, tf.keras.callbacks.Callback)],
)
watch.finish()
