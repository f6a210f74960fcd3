"""Train without jax.jit: the gradient and the update run op by op."""

import json
import pickle

import jax
import jax.numpy as jnp

STEPS = 30
weights = {"hidden": jnp.ones((8, 8)) * 0.1, "output": jnp.ones((8, 1))}
features = jnp.linspace(0.0, 1.0, 128).reshape(16, 8)


def loss_of(weights, features):
    hidden = jnp.tanh(features @ weights["hidden"])
    return jnp.mean((hidden @ weights["output"] - 1) ** 2)


def train_step(weights, features):
    loss, gradients = jax.value_and_grad(loss_of)(weights, features)
    change = jax.tree_util.tree_map(lambda old, new: old - 0.1 * new, weights, gradients)
    return loss, change


for _step in range(STEPS):
    loss, weights = train_step(weights, features)
    print("loss", float(loss).hex())
print("pickled", len(pickle.dumps(jax.device_get(weights))))
print("COUNTS", json.dumps({"grad loss_of": STEPS}))
