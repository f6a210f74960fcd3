"""Run steps of so many equal layers for some seconds: eleven layers are 10 % more than ten."""

import sys
import time

import tensorflow as tf

LAYERS, SECONDS = int(sys.argv[1]), float(sys.argv[2])
WEIGHTS = [tf.Variable(tf.random.normal([512, 512], seed=seed) / 23) for seed in range(LAYERS)]
BATCH = tf.random.normal([128, 512], seed=100)


@tf.function
def step(batch):
    for weights in WEIGHTS:
        batch = tf.nn.tanh(tf.matmul(batch, weights))
    return tf.reduce_sum(batch)


end = time.monotonic() + SECONDS
while time.monotonic() < end:
    step(BATCH).numpy()
