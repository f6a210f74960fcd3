"""Made-up data and the network of the programs with a Session or an estimator."""

import numpy as np
import tensorflow as tf


def rows(count, width, seed=1):
    """Return features and a target that depends on them."""
    random = np.random.RandomState(seed)
    features = random.rand(count, width).astype("float32")
    return features, features.sum(axis=1, keepdims=True) / width


def prediction(features, width, hidden, layers=2):
    """Return the prediction of a dense network."""
    for layer in range(layers):
        shape = [width if layer == 0 else hidden, hidden]
        start = tf.random_normal_initializer(stddev=shape[0] ** -0.5, seed=1)
        weights = tf.get_variable("weights_%d" % layer, shape, initializer=start)
        features = tf.nn.relu(tf.matmul(features, weights))
    start = tf.random_normal_initializer(stddev=hidden**-0.5, seed=1)
    return tf.matmul(features, tf.get_variable("output", [hidden, 1], initializer=start))


def training(features, targets, width, hidden, layers=2):
    """Return the op of a step of gradient descent, and the loss."""
    loss = tf.reduce_mean(tf.square(prediction(features, width, hidden, layers) - targets))
    step = tf.train.get_or_create_global_step()
    return tf.train.GradientDescentOptimizer(0.01).minimize(loss, global_step=step), loss


def started(**settings):
    """Return a session whose variables have their first values."""
    session = tf.Session(**settings)
    session.run(tf.global_variables_initializer())
    return session
