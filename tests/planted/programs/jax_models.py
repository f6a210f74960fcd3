"""What the programs of JAX share: a network, its data, and one step of training."""

import jax
import jax.numpy as jnp
import numpy as np


def network(width, layers=3):
    """Return the weights of dense layers, as wide as their input and output."""
    random = np.random.RandomState(0)
    shape = (layers, width, width)
    return [jnp.asarray(each, jnp.float32) for each in random.randn(*shape) * width**-0.5]


def rows(count, width):
    """Return as many features and targets, as NumPy arrays."""
    random = np.random.RandomState(1)
    return [random.randn(count, width).astype("float32") for _ in range(2)]


def loss_of(weights, features, targets):
    """Return the mean square of what the network gets wrong."""
    for layer in weights:
        features = jnp.tanh(features @ layer)
    return jnp.mean((features - targets) ** 2)


@jax.jit
def train_step(weights, features, targets):
    """Return the weights after one step of gradient descent, and the loss before it."""
    loss, gradients = jax.value_and_grad(loss_of)(weights, features, targets)
    return [layer - 0.01 * each for layer, each in zip(weights, gradients)], loss
