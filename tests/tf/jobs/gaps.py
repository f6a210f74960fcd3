"""Loops whose time between steps is known: gaps.py fit|numpy|generator|eager.

Prints the lines on which it is spent, then losses.
"""

import json
import sys
import time

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1
STEPS = 8
SLEEP_S = 0.01


def line():
    return sys._getframe(1).f_lineno


def tell(function, called=None, **lines):
    """Print where a function is, and where it is called from."""
    lines["first"] = function.__code__.co_firstlineno
    lines["called"] = called
    print("LINES " + json.dumps(lines, sort_keys=True))


def fit():
    class Sleeper(tf.keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            time.sleep(SLEEP_S)

    tell(Sleeper.on_train_batch_end)
    model = tf.keras.models.Sequential(
        [tf.keras.layers.Dense(1, input_dim=4, kernel_initializer="ones")]
    )
    model.compile("sgd", "mse")
    x, y = np.ones((4 * STEPS, 4), np.float32), np.zeros((4 * STEPS, 1), np.float32)
    history = model.fit(x, y, 4, verbose=0, shuffle=False, callbacks=[Sleeper()])
    print("loss %r" % history.history["loss"])


def numpy():
    weights = tf.Variable(tf.ones([64, 64]))

    @tf.function
    def step():
        weights.assign(weights * 0.99)
        return tf.reduce_sum(weights)

    def loop():
        for _ in range(STEPS):
            loss = step()
            value, called = loss.numpy(), line()
        return value, called

    value, called = loop()
    tell(loop, called)
    print("loss %r" % float(value))


def generator():
    with tf.Graph().as_default(), tf1.Session() as session:
        x = tf1.placeholder(tf.float32, [None, 4])
        weights = tf1.Variable(tf.ones([4, 1]))
        loss = tf.reduce_mean(tf.square(tf.matmul(x, weights)))
        train = tf1.train.GradientDescentOptimizer(0.01).minimize(loss)
        session.run(tf1.global_variables_initializer())
        for rows in batches():
            _, value = session.run([train, loss], {x: rows})
    tell(batches)
    print("loss %r" % float(value))


def batches():
    random = np.random.RandomState(3)
    for _ in range(STEPS):
        time.sleep(SLEEP_S)
        yield random.normal(size=(8, 4))


def eager():
    weights = tf.Variable(tf.ones([4, 1]))
    optimizer = tf.keras.optimizers.SGD(0.01)
    for rows in batches():
        rows = tf.constant(rows, tf.float32)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(tf.matmul(rows, weights)))
        optimizer.apply_gradients([(tape.gradient(loss, weights), weights)])
    tell(batches)
    print("loss %r" % float(loss))


if __name__ == "__main__":
    globals()[sys.argv[1]]()
