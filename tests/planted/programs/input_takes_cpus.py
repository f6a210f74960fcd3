"""A step that computes on all CPUs beside a pipeline that does so too, and yet is never late."""

import tensorflow as tf

from data import Network, rows
from stopwatch import Stopwatch, arguments

options = arguments(__doc__)
watch = Stopwatch(options.seconds)
network = Network(256, 1024)
train_step = tf.function(network.train)
mixture = tf.random.normal([256, 256], stddev=1 / 16, seed=1)


def prepare(features, targets):
    for _ in range(16):
        features = tf.tanh(tf.matmul(features, mixture))
    return features, targets


data = tf.data.Dataset.from_tensor_slices(rows(2048, 256)).batch(256)
if options.mended:
    data = data.map(prepare, num_parallel_calls=2).cache().repeat()
else:
    data = data.repeat().map(prepare, num_parallel_calls=2)  # planted
batches = iter(data.prefetch(8))

while watch.running():
    features, targets = next(batches)
    train_step(features, targets)
    watch.unit()
watch.finish()
