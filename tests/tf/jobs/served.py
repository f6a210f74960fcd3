"""Train with a profiler service until stdin ends: served.py PORT loop|fit|profiled [LOGS]."""

import sys
import threading

import numpy as np
import tensorflow as tf


class Stop(Exception):
    """Nobody wants this job any more."""


def main():
    over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
    tf.profiler.experimental.server.start(int(sys.argv[1]))
    if sys.argv[2] == "profiled":
        tf.profiler.experimental.start(sys.argv[3])
    (fit if sys.argv[2] == "fit" else loop)(over)
    say("over")


def loop(over):
    weights = tf.Variable(tf.ones([64, 64]))

    @tf.function
    def train_step(rows):
        weights.assign(tf.tanh(tf.matmul(rows, weights)))
        return tf.reduce_sum(weights)

    rows = tf.ones([64, 64])
    train_step(rows)
    say("ready")
    while not over.is_set():
        train_step(rows)


def fit(over):
    model = tf.keras.Sequential(
        [tf.keras.layers.Dense(8, activation="relu"), tf.keras.layers.Dense(1)]
    )
    model.compile("sgd", "mse")

    class Ends(tf.keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            if epoch == 0:
                say("ready")

        def on_train_batch_end(self, batch, logs=None):
            if over.is_set():
                raise Stop

    rows = np.ones((640, 4), np.float32)
    try:
        model.fit(rows, rows[:, :1], batch_size=32, epochs=10**6, verbose=0, callbacks=[Ends()])
    except Stop:
        pass


def say(what):
    sys.stdout.write(what + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
