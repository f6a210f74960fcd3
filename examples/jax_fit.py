"""A small convolutional network trained with JAX: a jitted step in a loop. Runs on JAX 0.4.30 and
newer; the optimizer is optax's Adam or, without optax, plain gradient descent.
"""

import argparse

import jax
import jax.numpy as jnp
import numpy as np

import digits

try:
    import optax
except ImportError:
    optax = None

SHAPES = {
    "conv1": (3, 3, 1, 16),
    "conv2": (3, 3, 16, 32),
    "hidden": (7 * 7 * 32, 64),
    "head": (64, 10),
}


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--steps", type=int, default=300, help="training steps (default: 300)")
    arguments.add_argument("--batch", type=int, default=64, help="images in a batch (default: 64)")
    options = arguments.parse_args()

    images, labels = digits.load()
    batches = digits.batches(images[..., np.newaxis], labels, options.batch)
    parameters = initial_parameters(np.random.RandomState(1))
    state = None if optax is None else optax.adam(1e-3).init(parameters)
    loss = None
    for step in range(1, options.steps + 1):
        parameters, state, loss = train_step(parameters, state, *next(batches))
        # A call of train_step only queues the step. The program waits for it here, and at the end.
        if step % 50 == 0:
            loss.block_until_ready()
    print("steps %d" % options.steps)
    print("loss %r" % float(loss))


@jax.jit
def train_step(parameters, state, images, labels):
    loss, gradients = jax.value_and_grad(loss_of)(parameters, images, labels)
    with jax.named_scope("update"):
        if optax is None:
            updates = jax.tree_util.tree_map(lambda gradient: -0.1 * gradient, gradients)
        else:
            updates, state = optax.adam(1e-3).update(gradients, state)
        parameters = jax.tree_util.tree_map(jnp.add, parameters, updates)
    return parameters, state, loss


def loss_of(parameters, images, labels):
    chances = jax.nn.log_softmax(logits_of(parameters, images))
    return -jnp.take_along_axis(chances, labels[:, None], axis=1).mean()


def logits_of(parameters, images):
    # Names of scopes are names of layers in `tfprobe scope --by-layer`.
    with jax.named_scope("conv1"):
        hidden = max_pool(jax.nn.relu(convolution(parameters["conv1"], images)))
    with jax.named_scope("conv2"):
        hidden = max_pool(jax.nn.relu(convolution(parameters["conv2"], hidden)))
    with jax.named_scope("hidden"):
        hidden = hidden.reshape(len(hidden), -1)
        hidden = jax.nn.relu(dense(parameters["hidden"], hidden))
    with jax.named_scope("head"):
        return dense(parameters["head"], hidden)


def convolution(layer, images):
    order = ("NHWC", "HWIO", "NHWC")
    convolved = jax.lax.conv_general_dilated(
        images, layer["kernel"], (1, 1), "SAME", dimension_numbers=order
    )
    return convolved + layer["bias"]


def max_pool(images):
    size = (1, 2, 2, 1)
    return jax.lax.reduce_window(images, -jnp.inf, jax.lax.max, size, size, "VALID")


def dense(layer, values):
    return values @ layer["kernel"] + layer["bias"]


def initial_parameters(random):
    """Return weights that keep the variance of what passes through them."""
    parameters = {}
    for name, shape in SHAPES.items():
        deviation = np.sqrt(2.0 / np.prod(shape[:-1]))
        parameters[name] = {
            "kernel": random.normal(0, deviation, shape).astype(np.float32),
            "bias": np.zeros(shape[-1], np.float32),
        }
    return parameters


if __name__ == "__main__":
    main()
