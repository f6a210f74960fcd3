"""Train a network with flax and optax; print the losses bit for bit, and how many steps ran."""

import json
import threading

import flax.linen as nn
import jax
import numpy as np
import optax

STEPS = 60


class Net(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.Dense(64, name="first")(x))
        return nn.Dense(4, name="second")(x)


net, optimizer = Net(), optax.adam(1e-3)


@jax.jit
def train_step(params, state, x, y):
    def loss_of(params):
        return optax.softmax_cross_entropy_with_integer_labels(net.apply(params, x), y).mean()

    loss, gradients = jax.value_and_grad(loss_of)(params)
    updates, state = optimizer.update(gradients, state)
    return optax.apply_updates(params, updates), state, loss


@jax.jit
def eval_step(params, x, y):
    return (net.apply(params, x).argmax(-1) == y).mean()


random = np.random.RandomState(0)
data = random.randn(STEPS, 32, 16).astype("float32")
labels = random.randint(0, 4, (STEPS, 32))
params = net.init(jax.random.PRNGKey(0), data[0])
state = optimizer.init(params)
for step in range(STEPS):
    params, state, loss = train_step(params, state, data[step], labels[step])
    if step % 10 == 9:
        print("loss", np.float32(loss).tobytes().hex())
for step in range(10):
    accuracy = eval_step(params, data[step], labels[step])
print("accuracy", np.float32(accuracy).tobytes().hex())
for leaf in jax.tree_util.tree_leaves(params):
    print("weights", np.asarray(leaf).tobytes().hex()[:64])
print("threads", sorted(thread.name for thread in threading.enumerate()))
print("COUNTS", json.dumps({"train_step": STEPS, "eval_step": 10}))
