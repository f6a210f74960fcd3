"""Models of Keras 3 on PyTorch: prints losses, weights and predictions, and what Keras counted."""

from __future__ import annotations

import hashlib
import json
import os
from typing import Any

os.environ["KERAS_BACKEND"] = "torch"

import keras
import numpy as np
import torch

torch.set_num_threads(1)
keras.utils.set_random_seed(7)
random = np.random.default_rng(7)
X = random.normal(size=(640, 20)).astype("float32")
Y = random.integers(0, 4, size=640)
COUNTS: dict[str, int] = {}


def made(name: str, **options: Any) -> Any:
    model = keras.Sequential(
        [keras.layers.Input((20,)), keras.layers.Dense(32, "relu"), keras.layers.Dense(4)],
        name=name,
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer="adam", loss=loss, **options)
    return model


def show(model: Any, *values: Any) -> None:
    weights = hashlib.sha256(b"".join(np.asarray(w).tobytes() for w in model.get_weights()))
    print(model.name, weights.hexdigest()[:16], *values)


class Seen(keras.callbacks.Callback):
    """Counts batches as callbacks do."""

    batches = 0

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.batches += 1


seen = Seen()
model = made("plain", metrics=["accuracy"])
history = model.fit(
    X, Y, batch_size=32, epochs=3, verbose=0, validation_split=0.25, callbacks=[seen]
)
show(model, history.history["loss"][-1], seen.batches, int(model.optimizer.iterations.value))
show(model, model.evaluate(X, Y, batch_size=64, verbose=0))
show(model, float(model.predict(X, batch_size=64, verbose=0).sum()))
COUNTS.update({"fit plain": 45, "evaluate plain": 15 + 10, "predict plain": 10})

model = made("batches")
for _ in range(30):
    loss = model.train_on_batch(X[:32], Y[:32])
show(model, float(loss), float(model.test_on_batch(X[:32], Y[:32])))
for _ in range(8):
    total = float(np.asarray(model.predict_on_batch(X[:32])).sum())
show(model, total)
COUNTS.update({"train_on_batch batches": 30, "test_on_batch batches": 1})
COUNTS["predict_on_batch batches"] = 8


class Custom(keras.Model):
    """Trains by a step of its own, with an optimizer of Keras."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.first = keras.layers.Dense(16, "relu")
        self.last = keras.layers.Dense(4)

    def call(self, x: Any) -> Any:
        return self.last(self.first(x))

    def train_step(self, data: Any) -> Any:
        x, y = data
        self.zero_grad()
        loss = self.compute_loss(y=y, y_pred=self(x, training=True))
        loss.backward()
        weights = list(self.trainable_weights)
        with torch.no_grad():
            self.optimizer.apply([v.value.grad for v in weights], weights)
        return {"loss": loss.detach()}


custom = Custom(name="custom")
custom.compile(optimizer="sgd", loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
custom.fit(X, Y, batch_size=64, epochs=2, verbose=0)
show(custom)
COUNTS["fit custom"] = 20

# A loop of its own, which neither `fit` nor an optimizer of PyTorch ends.
by_hand = made("by_hand")
rmsprop = keras.optimizers.RMSprop(0.01)
for _ in range(12):
    by_hand.zero_grad()
    losses = by_hand.compute_loss(y=torch.tensor(Y[:32]), y_pred=by_hand(torch.tensor(X[:32])))
    for _ in range(7):  # more gradients than a loop without an optimizer would be told by
        losses.backward(retain_graph=True)
    weights = list(by_hand.trainable_weights)
    with torch.no_grad():
        rmsprop.apply([v.value.grad for v in weights], weights)
show(by_hand, float(losses), int(rmsprop.iterations.value))
COUNTS["optimizer_step RMSprop"] = 12

print("COUNTS", json.dumps(COUNTS))
