"""Time one door with next to nothing behind it: unsampled.py DOOR CALLS."""

import sys

import numpy as np
import tensorflow as tf

from stopwatch import clock, measured, step_us

tf1 = tf.compat.v1
TF1 = tf.__version__.startswith("1.")


def main():
    door, calls = sys.argv[1], int(sys.argv[2])
    measured(step_us=globals()[door](calls))


def session_run(calls):
    with tf.Graph().as_default(), tf1.Session() as session:
        fetch = tf.constant(1.0) + 1.0
        return step_us(lambda: session.run(fetch), calls)


def callable(calls):
    with tf.Graph().as_default(), tf1.Session() as session:
        call = session.make_callable(tf.constant(1.0) + 1.0)
        return step_us(call, calls)


def function(calls):
    if TF1:
        tf1.enable_v2_behavior()
    value = tf.constant(1.0)
    step = tf.function(lambda x: x + 1.0)
    step(value)
    return step_us(lambda: step(value), calls)


def eager(calls):
    if TF1:
        tf1.enable_v2_behavior()
    variable = tf.Variable(1.0)
    gradient = tf.constant(0.1)
    optimizer = tf1.train.GradientDescentOptimizer(0.1)
    return step_us(lambda: optimizer.apply_gradients([(gradient, variable)]), calls)


def train_on_batch(calls):
    model, x, y = _model()
    model.train_on_batch(x, y)
    return step_us(lambda: model.train_on_batch(x, y), calls // 10, block=20)


def fit(calls):
    """The time of a batch inside fit, the least of ten fits."""
    model, x, y = _model()
    steps = max(20, calls // 100)
    x, y = np.repeat(x, steps, axis=0), np.repeat(y, steps, axis=0)
    times = []
    for _ in range(11):
        started = clock()
        model.fit(x, y, batch_size=4, verbose=0, shuffle=False)
        times.append((clock() - started) / steps * 1e6)
    return min(times[1:])


def _model():
    model = tf.keras.models.Sequential([tf.keras.layers.Dense(1, input_dim=2)])
    model.compile(optimizer="sgd", loss="mse")
    return model, np.ones((4, 2), np.float32), np.ones((4, 1), np.float32)


if __name__ == "__main__":
    main()
