"""What a user may do with a Keras model besides training: copy, pickle, mock, inherit, fail."""

import copy
import inspect
import pickle
import sys
from unittest import mock

import numpy as np
import tensorflow as tf

X = np.random.RandomState(5).normal(size=(64, 4)).astype(np.float32)
Y = X.sum(axis=1, keepdims=True)


def main():
    getattr(tf.random, "set_seed", tf.compat.v1.set_random_seed)(1)
    np.random.seed(1)
    model = build()

    def fit(each, **more):
        return each.fit(X, Y, batch_size=16, verbose=0, shuffle=False, **more).history["loss"]

    say("fit", lambda: fit(model))
    for name in ("fit", "evaluate", "predict", "train_on_batch"):
        say("signature", lambda: inspect.signature(getattr(model, name)))
        say("names", lambda: (getattr(model, name).__name__, getattr(model, name).__qualname__))
        say("copy", lambda: copy.copy(getattr(model, name)).__self__ is model)
        say("pickle", lambda: type(pickle.loads(pickle.dumps(getattr(model, name))).__self__))
        say("deepcopy", lambda: type(copy.deepcopy(getattr(model, name)).__self__))
    say("clone", lambda: [weights.shape for weights in tf.keras.models.clone_model(model).weights])
    say("mocked clocks", lambda: with_mocked(("time.time", "time.monotonic"), lambda: fit(model)))
    say("wrong shape", lambda: model.fit(X[:, :2], Y, verbose=0))
    say("callback that raises", lambda: fit(model, callbacks=[Raising()]))
    say("stopped in a callback", lambda: fit(model, callbacks=[Stopping()], epochs=3))
    say("fit inside a callback", lambda: fit(model, callbacks=[Nested(fit, build())]))
    say("fit", lambda: fit(model))


def say(name, action):
    """Print what an action returned, or the type of what it raised."""
    try:
        print("%s: %s" % (name, action()))
    except Exception as error:
        print("%s: %s" % (name, type(error).__name__))
    sys.stdout.flush()


def build():
    first = tf.keras.layers.Dense(8, input_dim=4, kernel_initializer=tf.keras.initializers.Ones())
    last = tf.keras.layers.Dense(1, kernel_initializer=tf.keras.initializers.Ones())
    model = tf.keras.Sequential([first, last])
    model.compile(optimizer="sgd", loss="mse")
    return model


class Raising(tf.keras.callbacks.Callback):
    def on_batch_end(self, batch, logs=None):
        if batch == 2:
            raise KeyError("the user's own")


class Stopping(tf.keras.callbacks.Callback):
    def on_batch_end(self, batch, logs=None):
        self.model.stop_training = batch >= 1


class Nested(tf.keras.callbacks.Callback):
    def __init__(self, fit, other):
        super().__init__()
        self.fit, self.other = fit, other

    def on_batch_end(self, batch, logs=None):
        if batch == 1:
            print("inner %s" % self.fit(self.other))


def with_mocked(names, action):
    # A clock that moves, but not with the time: progress bars divide by its differences.
    ticks = iter(range(1, 10**9))
    mocks = [mock.patch(name, side_effect=lambda: float(next(ticks))) for name in names]
    for each in mocks:
        each.start()
    try:
        return action()
    finally:
        for each in mocks:
            each.stop()


if __name__ == "__main__":
    main()
