"""A network that computes with 64 bits, as NumPy's arrays come."""

import numpy as np
import tensorflow as tf

from stopwatch import Stopwatch, arguments

options = arguments(__doc__)
watch = Stopwatch(options.seconds)
random = np.random.RandomState(1)


def tensor(*shape):
    array = random.normal(size=shape) * shape[-1] ** -0.5
    if options.mended:
        array = array.astype("float32")
    return tf.constant(array)  # planted


features, targets = tensor(512, 1024), tensor(512, 1)
hidden, output = tf.Variable(tensor(1024, 1024)), tf.Variable(tensor(1024, 1))


@tf.function
def train_step(features, targets):
    with tf.GradientTape() as tape:
        error = tf.matmul(tf.nn.relu(tf.matmul(features, hidden)), output) - targets
        loss = tf.reduce_mean(tf.square(error))
    for weights, gradient in zip((hidden, output), tape.gradient(loss, (hidden, output))):
        weights.assign_sub(tf.cast(0.01, weights.dtype) * gradient)
    return loss


while watch.running():
    train_step(features, targets)
    watch.unit()
watch.finish()
