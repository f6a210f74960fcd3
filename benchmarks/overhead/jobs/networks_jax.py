"""Train a network in JAX and time the loop: networks_jax.py NETWORK --steps N [--profiler].

`--profiler` traces steps 20 to 29 with jax.profiler, as one would by hand.
"""

import argparse
import contextlib
import tempfile

import flax.linen as nn
import jax
import numpy as np
import optax

from stopwatch import clock, measured

TRACED = range(20, 30)


class Mlp(nn.Module):
    @nn.compact
    def __call__(self, x):
        for features in (512, 512):
            x = nn.relu(nn.Dense(features)(x))
        return nn.Dense(10)(x)


class Transformer(nn.Module):
    @nn.compact
    def __call__(self, tokens):
        x = nn.Embed(256, 128)(tokens)
        for _ in range(2):
            mask = nn.make_causal_mask(tokens)
            normed = nn.LayerNorm()(x)
            x = x + nn.MultiHeadDotProductAttention(4)(normed, normed, mask=mask)
            x = x + nn.Dense(128)(nn.gelu(nn.Dense(512)(nn.LayerNorm()(x))))
        return nn.Dense(256)(x)


def batches(name, count):
    random = np.random.RandomState(0)
    if name == "mlp":
        pairs = [
            (random.randn(128, 256).astype("float32"), random.randint(0, 10, 128))
            for _ in range(16)
        ]
    else:
        texts = [random.randint(0, 256, (8, 65)) for _ in range(16)]
        pairs = [(text[:, :-1], text[:, 1:]) for text in texts]
    for number in range(count):
        yield pairs[number % len(pairs)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("network", choices=["mlp", "transformer"])
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--profiler", action="store_true")
    options = parser.parse_args()
    network = Mlp() if options.network == "mlp" else Transformer()
    optimizer = optax.adam(1e-3)

    @jax.jit
    def train_step(parameters, state, x, y):
        def loss_of(parameters):
            logits = network.apply(parameters, x)
            return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()

        loss, gradients = jax.value_and_grad(loss_of)(parameters)
        updates, state = optimizer.update(gradients, state)
        return optax.apply_updates(parameters, updates), state, loss

    parameters = network.init(jax.random.PRNGKey(0), next(batches(options.network, 1))[0])
    state = optimizer.init(parameters)
    for x, y in batches(options.network, 5):
        parameters, state, loss = train_step(parameters, state, x, y)
    loss.block_until_ready()
    started = clock()
    with contextlib.ExitStack() as stack:
        for number, (x, y) in enumerate(batches(options.network, options.steps)):
            if options.profiler and number == TRACED.start:
                folder = stack.enter_context(tempfile.TemporaryDirectory())
                jax.profiler.start_trace(folder)
            parameters, state, loss = train_step(parameters, state, x, y)
            if options.profiler and number == TRACED[-1]:
                loss.block_until_ready()
                jax.profiler.stop_trace()
            if number % 10 == 9:
                float(loss)
        loss.block_until_ready()
    seconds = clock() - started
    measured(loop_s=seconds, step_us=seconds / options.steps * 1e6)
    print("loss %r" % float(loss))


if __name__ == "__main__":
    main()
