"""A tf.data pipeline that reads each element from slow storage in a Python function, in turn."""

import time

import numpy as np
import tensorflow as tf

from data import Network
from stopwatch import Stopwatch, arguments, now

options = arguments(__doc__)
watch = Stopwatch(options.seconds)
network = Network(256, 2048)
train_step = tf.function(network.train)
STORAGE_LATENCY_S = 0.004


def read(index):
    time.sleep(STORAGE_LATENCY_S)
    return np.full(256, index % 10, "float32"), np.float32([index % 10])


def load(index):
    features, target = tf.numpy_function(read, [index], (tf.float32, tf.float32))
    return tf.ensure_shape(features, [256]), tf.ensure_shape(target, [1])


indices = tf.data.Dataset.range(1000).repeat()
if options.mended:
    data = indices.map(load, num_parallel_calls=16).batch(16).prefetch(8)
    threads = tf.data.Options()
    threads.threading.private_threadpool_size = 16
    data = data.with_options(threads)
else:
    data = indices.map(load).batch(16)  # planted

batches = iter(data)
while watch.running():
    begun = now()
    features, targets = next(batches)
    watch.took(begun)
    train_step(features, targets)
    watch.unit()
watch.finish()
