"""Time one door with next to nothing behind it: unsampled.py DOOR ROUNDS, recorded.

A round is a block of calls with the hooks in and one with the hooks out. Ops run in the calling
thread: how long the kernel takes to wake another one varies by more than a door costs.
"""

import sys

import numpy as np
import tensorflow as tf

from hooks import Hooks
from stopwatch import by_turns, mean_us, measured, median

tf1 = tf.compat.v1
TF1 = tf.__version__.startswith("1.")
BLOCK = 100
IN_THIS_THREAD = tf1.ConfigProto(inter_op_parallelism_threads=-1, intra_op_parallelism_threads=1)
WARM_UP_ROUNDS = 20


def main():
    if not TF1:
        tf.config.threading.set_inter_op_parallelism_threads(1)
        tf.config.threading.set_intra_op_parallelism_threads(1)
    door, rounds = sys.argv[1], int(sys.argv[2])
    globals()[door](rounds)


def compare(step, rounds, calls=BLOCK, bare=None, warm_up=WARM_UP_ROUNDS, hooks=None, steps=1):
    """Time `step`, of so many steps, with the hooks in and out; print both.

    With the hooks out `bare` is called instead, if it is given.
    """
    hooks = hooks or Hooks()

    def without():
        hooks.use(False)
        return mean_us(bare or step, calls) / steps

    def within():
        hooks.use(True)
        return mean_us(step, calls) / steps

    by_turns(warm_up, without, within)
    plain, hooked = by_turns(rounds, without, within)
    added = [second - first for first, second in zip(plain, hooked)]
    measured(bare_us=median(plain), hooked_us=median(hooked), added_us=median(added))


def session_run(rounds):
    with tf.Graph().as_default(), tf1.Session(config=IN_THIS_THREAD) as session:
        fetch = tf.constant(1.0) + 1.0
        compare(lambda: session.run(fetch), rounds)


def callable(rounds):
    with tf.Graph().as_default(), tf1.Session(config=IN_THIS_THREAD) as session:
        fetch = tf.constant(1.0) + 1.0
        hooks = Hooks()
        hooks.use(False)
        bare = session.make_callable(fetch)
        hooks.use(True)
        hooked = session.make_callable(fetch)
        compare(hooked, rounds, bare=bare)


def function(rounds):
    if TF1:
        tf1.enable_v2_behavior()
    value = tf.constant(1.0)
    step = tf.function(lambda x: x + 1.0)
    compare(lambda: step(value), rounds)


def eager(rounds):
    if TF1:
        tf1.enable_v2_behavior()
    variable = tf.Variable(1.0)
    gradient = tf.constant(0.1)
    optimizer = tf1.train.GradientDescentOptimizer(0.1)
    compare(lambda: optimizer.apply_gradients([(gradient, variable)]), rounds)


def train_on_batch(rounds):
    model, x, y = _model()
    compare(lambda: model.train_on_batch(x, y), rounds, calls=20)


def fit(rounds):
    """The time of a batch inside fit; a block is one fit, its own start spread over its batches."""
    model, x, y = _model()
    steps = BLOCK
    x, y = np.repeat(x, steps, axis=0), np.repeat(y, steps, axis=0)

    def fit_once():
        model.fit(x, y, batch_size=4, verbose=0, shuffle=False)

    fit_once()
    hooks = Hooks()
    made = model.__dict__.get("train_function")
    if getattr(made, "_tfprobe_door", False):
        hooks.add(model, "train_function", made, made.__wrapped__)

    compare(fit_once, max(20, rounds // 4), calls=1, warm_up=3, hooks=hooks, steps=steps)


def _model():
    model = tf.keras.models.Sequential([tf.keras.layers.Dense(1, input_dim=2)])
    model.compile(optimizer="sgd", loss="mse")
    return model, np.ones((4, 2), np.float32), np.ones((4, 1), np.float32)


if __name__ == "__main__":
    main()
