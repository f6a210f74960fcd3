"""Train with equinox, with haiku, and a small transformer with optax alone; print the weights."""

import functools
import json

import equinox as eqx
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import optax

STEPS = 20
random = np.random.RandomState(0)
x = random.randn(STEPS, 16, 8).astype("float32")
y = random.randint(0, 4, (STEPS, 16))


def show(name, tree):
    for leaf in jax.tree_util.tree_leaves(tree):
        print(name, np.asarray(leaf).tobytes().hex()[:64])


def with_equinox():
    model = eqx.nn.MLP(8, 4, 32, 2, key=jax.random.PRNGKey(0))
    optimizer = optax.adam(1e-3)
    state = optimizer.init(eqx.filter(model, eqx.is_array))

    @eqx.filter_value_and_grad
    def loss_of(model, x, y):
        logits = jax.vmap(model)(x)
        return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()

    @eqx.filter_jit
    def make_step(model, state, x, y):
        loss, gradients = loss_of(model, x, y)
        updates, state = optimizer.update(gradients, state)
        return loss, eqx.apply_updates(model, updates), state

    for step in range(STEPS):
        loss, model, state = make_step(model, state, x[step], y[step])
    show("equinox loss", loss)
    show("equinox", eqx.filter(model, eqx.is_array))
    print(eqx.tree_pformat(make_step)[:40])


def with_haiku():
    network = hk.without_apply_rng(hk.transform(lambda x: hk.nets.MLP([32, 4])(x)))
    optimizer = optax.sgd(0.1, momentum=0.9)
    parameters = network.init(jax.random.PRNGKey(0), x[0])
    state = optimizer.init(parameters)

    @jax.jit
    def update(parameters, state, x, y):
        def loss_of(parameters):
            logits = network.apply(parameters, x)
            return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()

        gradients = jax.grad(loss_of)(parameters)
        updates, state = optimizer.update(gradients, state)
        return optax.apply_updates(parameters, updates), state

    for step in range(STEPS):
        parameters, state = update(parameters, state, x[step], y[step])
    show("haiku", parameters)
    try:
        hk.transform(jax.jit(lambda x: x))
    except ValueError as error:
        print("haiku", str(error)[:60])


def attention(parameters, x):
    heads = [x @ parameters[name] for name in ("query", "key", "value")]
    scores = heads[0] @ heads[1].T / np.sqrt(heads[0].shape[-1])
    scores = jnp.where(jnp.tril(jnp.ones_like(scores)) > 0, scores, -1e9)
    x = x + jax.nn.softmax(scores) @ heads[2]
    return x + jax.nn.relu(x @ parameters["up"]) @ parameters["down"]


def with_optax():
    keys = jax.random.split(jax.random.PRNGKey(0), 12)
    shapes = {
        "query": (16, 16),
        "key": (16, 16),
        "value": (16, 16),
        "up": (16, 64),
        "down": (64, 16),
    }
    layers = [
        {
            name: jax.random.normal(keys[6 * layer + index], shape) * 0.1
            for index, (name, shape) in enumerate(shapes.items())
        }
        for layer in range(2)
    ]
    parameters = {"embedding": jax.random.normal(keys[11], (50, 16)) * 0.1, "layers": layers}
    schedule = optax.warmup_cosine_decay_schedule(0.0, 1e-2, 5, STEPS)
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(schedule))
    state = optimizer.init(parameters)

    def loss_of(parameters, tokens):
        x = parameters["embedding"][tokens[:, :-1]]
        for layer in parameters["layers"]:
            x = jax.checkpoint(jax.vmap(functools.partial(attention, layer)))(x)
        logits = x @ parameters["embedding"].T
        return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()

    @functools.partial(jax.jit, donate_argnums=(0, 1))
    def language_step(parameters, state, tokens):
        loss, gradients = jax.value_and_grad(loss_of)(parameters, tokens)
        updates, state = optimizer.update(gradients, state, parameters)
        return optax.apply_updates(parameters, updates), state, loss

    for _ in range(STEPS):
        tokens = random.randint(0, 50, (4, 17))
        parameters, state, loss = language_step(parameters, state, tokens)
        show("language loss", loss)
    show("language", parameters)


with_equinox()
with_haiku()
with_optax()
print("COUNTS", json.dumps({"make_step": STEPS, "update": STEPS, "language_step": STEPS}))
