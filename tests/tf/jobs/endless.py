"""Make steps of one kind until killed: endless.py session, fit or function."""

import sys

import numpy as np
import tensorflow as tf

STEPS_BEFORE = 5


def main():
    globals()[sys.argv[1]](Stepped())


class Stepped:
    """Says on stdout that steps are made."""

    count = 0

    def __call__(self, *_, **__):
        self.count += 1
        if self.count == STEPS_BEFORE:
            print("STEPPING", flush=True)


def session(stepped):
    tf1 = tf.compat.v1
    tf1.disable_eager_execution()
    total = tf.reduce_sum(tf.matmul(tf.ones([64, 64]), tf.ones([64, 64])), name="total")
    with tf1.Session() as running:
        while True:
            running.run(total)
            stepped()


def fit(stepped):
    model = tf.keras.models.Sequential([tf.keras.layers.Dense(1, input_shape=(4,))], name="net")
    model.compile(optimizer="sgd", loss="mse")
    x = np.ones((256, 4), np.float32)
    told = tf.keras.callbacks.LambdaCallback(on_batch_end=stepped)
    model.fit(x, x[:, :1], batch_size=4, epochs=1000000, verbose=0, callbacks=[told])


def function(stepped):
    if tf.__version__.startswith("1."):
        tf.compat.v1.enable_v2_behavior()
    weights = tf.Variable(tf.ones([64]))

    @tf.function
    def train():
        weights.assign_add(0.001 * weights)

    while True:
        train()
        stepped()


if __name__ == "__main__":
    main()
