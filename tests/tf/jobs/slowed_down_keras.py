"""A Keras program without end that is slower than it could be in several ways."""

import numpy as np
import tensorflow as tf


class Norms(tf.keras.callbacks.Callback):
    """What the program looks at behind each batch."""

    def on_train_batch_end(self, batch, logs=None):
        self.norms = [np.linalg.norm(weights) for weights in self.model.get_weights()]


features = np.random.rand(96, 16).astype("float32")
targets = features.sum(axis=1, keepdims=True)
data = tf.data.Dataset.from_tensor_slices((features, targets))
data = data.map(lambda row, target: (row * 2.0, target)).batch(8).repeat()
inputs = tf.keras.Input((16,))
hidden = tf.keras.layers.Dense(32, activation="relu")(inputs)
model = tf.keras.Model(inputs, tf.keras.layers.Dense(1)(hidden), name="network")
model.compile(tf.keras.optimizers.Adam(0.01), "mse", run_eagerly=True)
encoder = tf.keras.Model(inputs, hidden, name="encoder")
for row in features[:3]:
    encoder.predict(row[None], verbose=0)
saving = tf.keras.callbacks.ModelCheckpoint(
    "latest.weights.h5", save_freq=1, save_weights_only=True
)
model.fit(data, steps_per_epoch=1000, epochs=1000, verbose=0, callbacks=[Norms(), saving])
