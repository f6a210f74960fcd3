"""A custom loop without end that is slower than it could be in several ways."""

import tensorflow as tf

features = tf.random.uniform([64, 16])
weights = [tf.Variable(tf.random.normal([16, 16])) for _ in range(2)]
optimizer = tf.keras.optimizers.SGD(0.1)
checkpoint = tf.train.Checkpoint(weights=weights)


class Network:
    """A small network that trains itself."""

    def predict(self, rows):
        for matrix in weights:
            rows = tf.tanh(tf.matmul(rows, matrix))
        return rows

    def step(self, rows, number):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self.predict(rows) - rows))
        rate = 1.0 / (1.0 + 0.01 * tf.cast(number, tf.float32))
        gradients = [rate * gradient for gradient in tape.gradient(loss, weights)]
        optimizer.apply_gradients(zip(gradients, weights))
        return loss


@tf.function
def scale(rows):
    """Called with another shape each time."""
    return rows / tf.reduce_max(rows)


@tf.function
def warmth(rows, number):
    """Called with another number each time."""
    return rows * (1.0 + 0.001 * tf.cast(number, tf.float32))


network = Network()
number = 0
while True:
    rows = warmth(scale(features[: 8 + number % 32]), number)
    network.step(rows, number)
    checkpoint.write("latest")
    number += 1
