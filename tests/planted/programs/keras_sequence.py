"""A Sequence of Keras 2 that reads its batches from slow storage, with one worker."""

import time

import tensorflow as tf

from models import arrays, compiled
from stopwatch import Stopwatch, arguments, now, time_limit

options = arguments(__doc__)
watch = Stopwatch(options.seconds)
STEPS = 40
features, targets = arrays(2560, 256)


class Stored(tf.keras.utils.Sequence):
    def __len__(self):
        return STEPS

    def __getitem__(self, index):
        begun = now()
        if not options.mended:  # planted
            time.sleep(0.03)
        watch.took(begun)
        return features[64 * index : 64 * index + 64], targets[64 * index : 64 * index + 64]


model = compiled(256, 1024, layers=3)
model.fit(
    Stored(),
    epochs=10000,
    verbose=0,
    callbacks=[time_limit(watch, STEPS, tf.keras.callbacks.Callback)],
)
watch.finish()
