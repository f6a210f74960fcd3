"""A function whose steps take input through a Map with Python in it, and one that traces anew."""

import numpy as np
import tensorflow as tf

ROWS = 64


def doubled(row):
    return np.asarray(row) * np.float32(2)


def parse(row):
    parsed = tf.numpy_function(doubled, [row], tf.float32)
    parsed.set_shape([8])
    return parsed


data = tf.data.Dataset.from_tensor_slices(np.ones((ROWS, 8), np.float32))
data = data.map(parse, num_parallel_calls=2).batch(4).prefetch(2)
batches = iter(data)
weights = tf.Variable(tf.ones([8, 4]))


@tf.function
def train_step(iterator):
    return tf.reduce_sum(tf.matmul(next(iterator), weights))


@tf.function
def retracing(count):
    return tf.reduce_sum(tf.ones([count, 4]))


for number in range(8):
    train_step(batches)
    retracing(number + 1)
