"""A training loop without end that is slower than it could be in several ways."""

import jax
import jax.numpy as jnp

jax.config.update("jax_debug_nans", True)
weights = [jnp.ones((8, 8)) * 0.1, jnp.ones((8, 1))]


def loss(weights, features):
    hidden = jnp.tanh(features @ weights[0])
    return ((hidden @ weights[1]) ** 2).mean()


@jax.jit
def step(weights, features):
    gradients = jax.grad(loss)(weights, features)
    return jax.tree_util.tree_map(lambda old, change: old - 0.1 * change, weights, gradients)


keys = jax.random.split(jax.random.PRNGKey(0), 4)
batches = [jax.random.normal(key, (16, 8)) for key in keys]
while True:
    for batch in batches:
        weights = step(weights, batch)
