"""Run steps that are waited for each time, now and then, or at the end; measure their mean."""

import json
import time

import jax
import jax.numpy as jnp
import numpy as np

STEPS = 60
weights = jnp.asarray(np.random.RandomState(0).randn(300, 300).astype("float32") * 0.05)


def body(weights, x):
    for _ in range(6):
        x = jnp.tanh(x @ weights)
    return weights + 1e-6 * x.T @ x, x.mean()


def named(name):
    def step(weights, x):
        return body(weights, x)

    step.__name__ = name
    return jax.jit(step)


x = jnp.ones((200, 300))
means, last = {}, {}
for name, every in (("each", 1), ("tenth", 10), ("once", STEPS)):
    step = named(name)
    state, loss = step(weights, x)
    jax.block_until_ready(state)
    began = time.perf_counter()
    for number in range(STEPS):
        state, loss = step(state, x)
        if number % every == every - 1:
            last[name] = float(loss)
    jax.block_until_ready(state)
    means[name] = (time.perf_counter() - began) / STEPS

first, second = named("first_in_turn"), named("second_in_turn")
for _ in range(20):
    state, _ = first(weights, x)
    last["in_turn"] = float(second(state, x)[1])

small = named("reads")
value = small(weights, x)[1]
reads = [
    float(value), value.item(), value.tolist(), bool(value), int(value), str(value), f"{value:.3f}",
    np.asarray(value).tobytes().hex(), jax.device_get(value).tobytes().hex(), repr(value),
    value.block_until_ready() is value, jax.block_until_ready([value, {"a": value}])[0] is value,
]  # fmt: skip
print("reads", reads)
deleted = small(weights, x)[1]
deleted.delete()
for read in (float, bool, str, lambda value: value.item(), lambda value: value.block_until_ready()):
    try:
        print(read(deleted))
    except RuntimeError as error:
        print("deleted", type(error).__name__, error)
print("last", {name: np.float32(value).tobytes().hex() for name, value in last.items()})
with open("means.json", "w") as file:
    json.dump(means, file)
print(
    "COUNTS",
    json.dumps(
        {**dict.fromkeys(means, STEPS + 1), "first_in_turn": 20, "second_in_turn": 20, "reads": 2}
    ),
)
