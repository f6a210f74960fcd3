"""Fit and evaluate a model on slow batches of a generator, and count its steps."""

import json
import os
import time

os.environ["KERAS_BACKEND"] = "jax"

import keras
import numpy as np

keras.utils.set_random_seed(3)


def batches():
    while True:
        time.sleep(0.02)
        yield np.ones((8, 16), np.float32), np.ones((8, 4), np.float32)


model = keras.Sequential([keras.layers.Input((16,)), keras.layers.Dense(4)], name="m_slow")
model.compile("sgd", "mse")
history = model.fit(batches(), steps_per_epoch=40, epochs=2, verbose=0)
print(history.history)
print("COUNTS", json.dumps({"fit m_slow": 80}))
