"""Made-up data and models of the custom loops."""

import numpy as np
import tensorflow as tf


def rows(count, width, seed=1):
    """Return features and a target that depends on them."""
    random = np.random.RandomState(seed)
    features = random.rand(count, width).astype("float32")
    return features, features.sum(axis=1, keepdims=True) / width


class Network:
    """A small dense network with plain gradient descent, without Keras."""

    def __init__(self, width, hidden, layers=2):
        sizes = [width] + [hidden] * layers + [1]
        self.weights = [
            tf.Variable(tf.random.normal(pair, stddev=pair[0] ** -0.5, seed=1))
            for pair in zip(sizes, sizes[1:])
        ]

    def predict(self, features):
        """Return the predictions for a batch."""
        for weights in self.weights[:-1]:
            features = tf.nn.relu(tf.matmul(features, weights))
        return tf.matmul(features, self.weights[-1])

    def train(self, features, targets, rate=0.01):
        """Take one step of gradient descent; return the loss."""
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self.predict(features) - targets))
        for weights, gradient in zip(self.weights, tape.gradient(loss, self.weights)):
            weights.assign_sub(rate * gradient)
        return loss
