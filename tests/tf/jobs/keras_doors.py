"""Every way through a Keras model, each with a count of its own: keras_doors.py FLAVOUR.

FLAVOUR is tf.keras, tf_keras or keras (the stand-alone package), with -graph for eager execution
disabled and -eager for TensorFlow 2 behaviour in TensorFlow 1.
"""

import sys

import numpy as np
import tensorflow as tf

from facts import absent, fact

RANDOM = np.random.RandomState(5)
X = RANDOM.normal(size=(100, 4)).astype(np.float32)
Y = X.sum(axis=1, keepdims=True)
VERSION = tuple(int(part) for part in tf.__version__.split(".")[:2])


def main():
    flavour, _, mode = sys.argv[1].partition("-")
    if mode == "graph":
        tf.compat.v1.disable_eager_execution()
    if mode == "eager":
        tf.compat.v1.enable_v2_behavior()
    keras = _import(flavour)
    eager = tf.executing_eagerly()
    # Keras 2.11 to 2.15 has two families of optimizers, and only the older one trains without
    # eager execution.
    optimizers = (
        keras.optimizers if eager else getattr(keras.optimizers, "legacy", keras.optimizers)
    )
    getattr(tf.random, "set_seed", tf.compat.v1.set_random_seed)(11)
    # Keras shuffles validation data, too, in graph mode.
    np.random.seed(11)

    def build(name, **settings):
        first = keras.layers.Dense(
            8, activation="relu", input_dim=4, kernel_initializer=_fixed(keras, 1)
        )
        last = keras.layers.Dense(1, kernel_initializer=_fixed(keras, 2))
        model = keras.models.Sequential([first, last], name=name)
        model.compile(optimizer=optimizers.SGD(0.01), loss="mse", **settings)
        return model

    def trained_steps(model):
        iterations = model.optimizer.iterations
        return int(iterations.numpy() if eager else keras.backend.get_value(iterations))

    model = build("m_fit")
    history = model.fit(
        X, Y, batch_size=16, epochs=3, validation_data=(X[:40], Y[:40]), verbose=0, shuffle=False
    )
    print("fit %r" % history.history)
    fact("fit", "fit", "m_fit", trained_steps(model))
    fact("validation_inside_fit", "evaluate", "m_fit", 3 * 3)

    model = build("m_evaluate")
    print("evaluate %r" % model.evaluate(X[:50], Y[:50], batch_size=16, verbose=0))
    fact("evaluate", "evaluate", "m_evaluate", 4)

    model = build("m_predict")
    print("predict %r" % float(model.predict(X[:33], batch_size=8, verbose=0).sum()))
    fact("predict", "predict", "m_predict", 5)

    model = build("m_batches")
    for _ in range(11):
        loss = model.train_on_batch(X[:10], Y[:10])
    print("train_on_batch %r" % float(np.ravel(loss)[0]))
    fact("train_on_batch", "train_on_batch", "m_batches", trained_steps(model))
    for _ in range(5):
        loss = model.test_on_batch(X[:10], Y[:10])
    print("test_on_batch %r" % float(np.ravel(loss)[0]))
    fact("test_on_batch", "test_on_batch", "m_batches", 5)
    for _ in range(6):
        output = model.predict_on_batch(X[:10])
    print("predict_on_batch %r" % float(np.sum(output)))
    fact("predict_on_batch", "predict_on_batch", "m_batches", 6)
    fact("no_fit_in_on_batch", ["fit", "function", "callable"], "m_batches", [])

    class Inherited(type(model)):
        def fit(self, *args, **kwargs):
            return super().fit(*args, **kwargs)

    model = Inherited(
        [keras.layers.Dense(1, input_dim=4, kernel_initializer=_fixed(keras, 3))],
        name="m_inherited",
    )
    model.compile(optimizer=optimizers.SGD(0.01), loss="mse")
    history = model.fit(X, Y, batch_size=50, epochs=4, verbose=0, shuffle=False)
    print("inherited %r" % history.history)
    fact("fit_overridden", "fit", "m_inherited", trained_steps(model))

    if eager and VERSION >= (2, 4):
        model = build("m_several", steps_per_execution=3)
        history = model.fit(X, Y, batch_size=16, epochs=2, verbose=0, shuffle=False)
        print("steps_per_execution %r, %d steps" % (history.history, trained_steps(model)))
        fact("steps_per_execution", "fit", "m_several", 6)
        _custom_step(keras, optimizers, trained_steps)
    else:
        absent(
            "steps_per_execution", "steps_per_execution needs eager execution and TensorFlow 2.4"
        )
        absent(
            "custom_train_step",
            "a train_step of one's own needs eager execution and TensorFlow 2.4",
        )

    if eager:
        model = build("m_eager", run_eagerly=True)
        history = model.fit(X, Y, batch_size=30, epochs=2, verbose=0, shuffle=False)
        print("run_eagerly %r" % history.history)
        fact("run_eagerly", "fit", "m_eager", trained_steps(model))
        fact("no_eager_in_fit", "eager", "SGD", [])
        model = build("m_dataset")
        data = tf.data.Dataset.from_tensor_slices((X, Y)).batch(16)
        history = model.fit(data, epochs=2, verbose=0)
        print("dataset %r" % history.history)
        fact("fit_from_dataset", "fit", "m_dataset", trained_steps(model))
    else:
        for name in ("run_eagerly", "no_eager_in_fit", "fit_from_dataset"):
            absent(name, "needs eager execution")


def _custom_step(keras, optimizers, trained_steps):
    class Custom(keras.Model):
        def train_step(self, data):
            x, y = data
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(self(x, training=True) - y))
            gradients = tape.gradient(loss, self.trainable_variables)
            self.optimizer.apply_gradients(zip(gradients, self.trainable_variables))
            return {"loss": loss}

    inputs = keras.Input((4,))
    outputs = keras.layers.Dense(1, kernel_initializer=_fixed(keras, 4))(inputs)
    model = Custom(inputs, outputs, name="m_custom")
    model.compile(optimizer=optimizers.SGD(0.01), loss="mse")
    history = model.fit(X, Y, batch_size=16, epochs=2, verbose=0, shuffle=False)
    print("custom_train_step %r" % history.history)
    fact("custom_train_step", "fit", "m_custom", trained_steps(model))


def _import(flavour):
    if flavour == "keras":
        import keras

        return keras
    if flavour == "tf_keras":
        import tf_keras

        return tf_keras
    return tf.keras


def _fixed(keras, seed):
    return keras.initializers.RandomNormal(stddev=0.3, seed=seed)


if __name__ == "__main__":
    main()
