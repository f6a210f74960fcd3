"""Functions whose products are made by lines that AutoGraph rewrites, by gradients, and by XLA."""

import tensorflow as tf

STEPS = 8
weights = tf.Variable(tf.ones([16, 16]))
version = tuple(int(part) for part in tf.__version__.split(".")[:2])


def rewritten(x):
    for _ in range(2):
        if tf.reduce_sum(x) > -1.0:
            x = tf.matmul(x, weights)  # rewritten
    return tf.reduce_sum(x)


converted = tf.autograph.to_graph(rewritten)


@tf.function(autograph=False)
def call_converted(x):
    return converted(x)


@tf.function
def loop_step(x):
    total = 0.0
    for _ in tf.range(3):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.matmul(x, weights))  # loop
        total += tf.reduce_sum(tape.gradient(loss, weights))
    return total


def xla_step(x):
    with tf.GradientTape() as tape:
        with tf.name_scope("hidden"):
            hidden = tf.matmul(x, weights)  # xla
        loss = tf.reduce_sum(hidden * hidden)
    return tape.gradient(loss, weights)


steps = [call_converted, loop_step]
if version >= (2, 5):
    steps.append(tf.function(jit_compile=True)(xla_step))
for step in steps:
    for _ in range(STEPS):
        step(tf.ones([4, 16]))
