"""Train a model of flax.nnx, store it with orbax and go on from there; print losses and weights."""

import json
import tempfile

import flax
import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint
from flax import nnx

STEPS = 20
NEW = tuple(int(part) for part in flax.__version__.split(".")[:2]) >= (0, 11)


class Model(nnx.Module):
    def __init__(self, rngs):
        self.first = nnx.Linear(8, 32, rngs=rngs)
        self.norm = nnx.BatchNorm(32, rngs=rngs)
        self.dropout = nnx.Dropout(0.1, rngs=rngs)
        self.last = nnx.Linear(32, 4, rngs=rngs)

    def __call__(self, x):
        return self.last(self.dropout(nnx.relu(self.norm(self.first(x)))))


def loss_of(model, x, y):
    logits = model(x)
    return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean(), logits


@nnx.jit
def train_step(model, optimizer, metrics, x, y):
    (loss, logits), gradients = nnx.value_and_grad(loss_of, has_aux=True)(model, x, y)
    metrics.update(loss=loss, logits=logits, labels=y)
    if NEW:
        optimizer.update(model, gradients)
    else:
        optimizer.update(gradients)


@nnx.jit
def eval_step(model, metrics, x, y):
    loss, logits = loss_of(model, x, y)
    metrics.update(loss=loss, logits=logits, labels=y)


def show(name, tree):
    for leaf in jax.tree_util.tree_leaves(tree):
        print(name, np.asarray(leaf).tobytes().hex()[:64])


random = np.random.RandomState(0)
x = random.randn(STEPS, 16, 8).astype("float32")
y = random.randint(0, 4, (STEPS, 16))
model = Model(nnx.Rngs(0))
optimizer = nnx.Optimizer(model, optax.adamw(1e-3), **({"wrt": nnx.Param} if NEW else {}))
metrics = nnx.MultiMetric(accuracy=nnx.metrics.Accuracy(), loss=nnx.metrics.Average("loss"))
for step in range(STEPS):
    train_step(model, optimizer, metrics, x[step], y[step])
show("training", metrics.compute())
metrics.reset()
model.eval()
for step in range(5):
    eval_step(model, metrics, x[step], y[step])
show("evaluation", metrics.compute())
model.train()

_, parameters, _ = nnx.split(model, nnx.Param, ...)
plain = {str(at): leaf for at, leaf in enumerate(jax.tree_util.tree_leaves(parameters))}
with tempfile.TemporaryDirectory() as folder:
    checkpointer = orbax.checkpoint.StandardCheckpointer()
    checkpointer.save(folder + "/weights", plain)
    if hasattr(checkpointer, "wait_until_finished"):
        checkpointer.wait_until_finished()
    restored = checkpointer.restore(folder + "/weights", plain)
    if hasattr(checkpointer, "close"):
        checkpointer.close()
same = jax.tree_util.tree_map(lambda one, other: bool((one == other).all()), plain, restored)
print("restored", same)
for step in range(STEPS):
    train_step(model, optimizer, metrics, x[step], y[step])
show("weights", nnx.state(model, nnx.Param))
show("statistics", nnx.state(model, nnx.BatchStat))
scanned = nnx.jit(lambda model, x: model(x).sum())(model, jnp.ones((2, 8)))
show("lambda", scanned)
counts = {"train_step": 2 * STEPS, "eval_step": 5, "<lambda>": 1}
if flax.__version__.startswith("0.8."):
    counts = {"jit_fn": sum(counts.values())}  # the name that all compiled functions of nnx have
print("COUNTS", json.dumps(counts))
