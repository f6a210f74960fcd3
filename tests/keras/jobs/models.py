"""Go every way through a model of Keras 3 on JAX, each with a count of its own; print weights."""

import json
import os
import pickle
import tempfile

os.environ["KERAS_BACKEND"] = "jax"

import jax
import keras
import numpy as np

RANDOM = np.random.RandomState(5)
X = RANDOM.normal(size=(100, 4)).astype(np.float32)
Y = X.sum(axis=1, keepdims=True)
COUNTS = {}


def ran(kind, name, times):
    COUNTS[f"{kind} {name}"] = times


def build(name, loss="mse", **settings):
    keras.utils.set_random_seed(11)
    first = keras.layers.Dense(8, activation="relu")
    model = keras.Sequential([keras.Input((4,)), first, keras.layers.Dense(1)], name=name)
    model.compile(optimizer=keras.optimizers.Adam(0.01), loss=loss, **settings)
    return model


def show(name, *values):
    print(name, *(np.asarray(value).tobytes().hex() for value in values))


def trained_steps(model):
    return int(model.optimizer.iterations.numpy())


class Counting(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.seen = dict.fromkeys(("train", "test", "predict", "epoch"), 0)

    def on_train_batch_end(self, batch, logs=None):
        self.seen["train"] += 1

    def on_test_batch_end(self, batch, logs=None):
        self.seen["test"] += 1

    def on_predict_batch_end(self, batch, logs=None):
        self.seen["predict"] += 1

    def on_epoch_end(self, epoch, logs=None):
        self.seen["epoch"] += 1


class Waiting(keras.callbacks.Callback):
    """Ends a fit only once its last step has run, and not as soon as the loss of that is there."""

    def on_train_end(self, logs=None):
        jax.block_until_ready(self.model.optimizer.iterations.value)


class Custom(keras.Model):
    """A model with a train step of its own, as Keras' guide for JAX writes it."""

    def compute_loss_and_updates(self, trainable, untrained, x, y, training=False):
        predicted, untrained = self.stateless_call(trainable, untrained, x, training=training)
        return keras.ops.mean((predicted - y) ** 2), untrained

    def train_step(self, state, data):
        trainable, untrained, optimizer, metrics = state
        x, y = data[:2]
        gradient = jax.value_and_grad(self.compute_loss_and_updates, has_aux=True)
        (loss, untrained), gradients = gradient(trainable, untrained, x, y, training=True)
        trainable, optimizer = self.optimizer.stateless_apply(optimizer, gradients, trainable)
        return {"loss": loss}, (trainable, untrained, optimizer, metrics)


model = build("m_fit")
counting = Counting()
folder = tempfile.mkdtemp()
history = model.fit(
    X, Y, batch_size=16, epochs=5, validation_data=(X[:40], Y[:40]), verbose=0,
    callbacks=[
        counting,
        keras.callbacks.ModelCheckpoint(os.path.join(folder, "best.keras")),
        Waiting(),
    ],
)  # fmt: skip
print("fit", history.history, counting.seen)
show("weights", *model.get_weights())
ran("fit", "m_fit", trained_steps(model))
ran("evaluate", "m_fit", counting.seen["test"])

model = build("m_evaluate")
counting = Counting()
print("evaluate", model.evaluate(X[:50], Y[:50], batch_size=16, verbose=0, callbacks=[counting]))
ran("evaluate", "m_evaluate", counting.seen["test"])

model = build("m_predict")
counting = Counting()
show("predict", model.predict(X[:33], batch_size=8, verbose=0, callbacks=[counting]))
ran("predict", "m_predict", counting.seen["predict"])

model = build("m_batches", metrics=["mae"])
for _ in range(11):
    print("train_on_batch", model.train_on_batch(X[:10], Y[:10], return_dict=True))
ran("train_on_batch", "m_batches", trained_steps(model))
for _ in range(5):
    print("test_on_batch", model.test_on_batch(X[:10], Y[:10]))
ran("test_on_batch", "m_batches", 5)
for _ in range(6):
    show("predict_on_batch", model.predict_on_batch(X[:10]))
ran("predict_on_batch", "m_batches", 6)
show("weights", *model.get_weights())

model = build("m_several", steps_per_execution=3)
history = model.fit(X, Y, batch_size=16, epochs=2, verbose=0, callbacks=[Waiting()])
print("several", history.history)
show("predict", model.predict(X, batch_size=8, verbose=0))
ran("fit", "m_several", 2 * 3)
ran("predict", "m_several", 5)

for name, settings in (("m_jit", {"jit_compile": True}), ("m_plain", {"jit_compile": False})):
    model = build(name, **settings)
    print(name, model.fit(X, Y, batch_size=50, epochs=4, verbose=0).history)
    ran("fit", name, trained_steps(model))

model = build("m_eager", run_eagerly=True)
print("run eagerly", model.fit(X[:30], Y[:30], batch_size=10, epochs=2, verbose=0).history)
ran("fit", "m_eager", trained_steps(model))

keras.utils.set_random_seed(12)
inputs = keras.Input((4,))
model = Custom(inputs, keras.layers.Dense(1)(inputs), name="m_custom")
model.compile(optimizer=keras.optimizers.SGD(0.01), loss="mse")
model.fit(X, Y, batch_size=16, epochs=3, verbose=0)
show("custom", *model.get_weights())
ran("fit", "m_custom", trained_steps(model))


def failing(true, predicted):
    raise ValueError("while tracing a loss")


try:
    build("m_failing", loss=failing).fit(X, Y, verbose=0)
except ValueError as error:
    print("failing", str(error).splitlines()[-1])

model = build("m_copied")
model.fit(X, Y, batch_size=50, epochs=1, verbose=0)
copied = pickle.loads(pickle.dumps(model))
show("copied", copied.predict_on_batch(X[:5]))
model.save(os.path.join(folder, "whole.keras"))
show("loaded", keras.models.load_model(os.path.join(folder, "whole.keras")).predict_on_batch(X[:5]))

# A function of jax.jit that the program calls itself is a step of its own.
double = jax.jit(lambda x: 2 * x)
for _ in range(4):
    show("jit", double(X[0]))
ran("jit", "<lambda>", 4)
print("COUNTS", json.dumps(COUNTS))
