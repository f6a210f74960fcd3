"""A training loop without end whose compiled step returns the loss that it differentiates."""

import jax
import jax.numpy as jnp


def loss(weights, features, targets):
    hidden = jnp.tanh(features @ weights["inner"])
    return ((hidden @ weights["outer"] - targets) ** 2).mean()


@jax.jit
def step(weights, features, targets):
    value, gradients = jax.value_and_grad(loss)(weights, features, targets)
    new = jax.tree_util.tree_map(lambda old, change: old - 0.1 * change, weights, gradients)
    return new, value


weights = {"inner": jnp.ones((8, 8)) * 0.1, "outer": jnp.ones((8, 1))}
keys = jax.random.split(jax.random.PRNGKey(0), 4)
batches = [(jax.random.normal(key, (16, 8)), jnp.ones((16, 1))) for key in keys]
while True:
    for features, targets in batches:
        weights, value = step(weights, features, targets)
