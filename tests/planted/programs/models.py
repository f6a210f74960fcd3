"""Made-up data and the model of the Keras programs."""

import numpy as np
import tensorflow as tf


def arrays(count, width, seed=1):
    """Return features and a target that depends on them."""
    random = np.random.RandomState(seed)
    features = random.rand(count, width).astype("float32")
    return features, features.sum(axis=1, keepdims=True) / width


def compiled(width, hidden, layers=2, **settings):
    """Return a compiled dense model."""
    inputs = tf.keras.Input((width,))
    outputs = inputs
    for _ in range(layers):
        outputs = tf.keras.layers.Dense(hidden, activation="relu")(outputs)
    model = tf.keras.Model(inputs, tf.keras.layers.Dense(1)(outputs))
    model.compile(optimizer="sgd", loss="mse", **settings)
    return model


def epochs_of(features, targets, batch, steps):
    """Return a prefetched data set of `steps` batches, ready before the first step."""
    data = tf.data.Dataset.from_tensor_slices((features, targets))
    return data.batch(batch, drop_remainder=True).cache().repeat().take(steps).prefetch(4)
