"""Call compiled functions with other shapes, types and static values; print what JAX counts."""

import os
import tempfile
from functools import partial

os.environ["JAX_COMPILATION_CACHE_DIR"] = tempfile.mkdtemp()
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"

import json

import jax
import jax.monitoring
import jax.numpy as jnp
import numpy as np

DURATIONS = {}
EVENTS = {}


def count_duration(event, _seconds, **_facts):
    DURATIONS[event] = DURATIONS.get(event, 0) + 1


def count_event(event, **_facts):
    EVENTS[event] = EVENTS.get(event, 0) + 1


jax.monitoring.register_event_duration_secs_listener(count_duration)
jax.monitoring.register_event_listener(count_event)


def show(name, value):
    print(name, [np.asarray(leaf).tobytes().hex() for leaf in jax.tree_util.tree_leaves(value)])


@jax.jit
def shapes(x, scale):
    return (x * scale).sum()


@partial(jax.jit, static_argnums=1, static_argnames=("mode",))
def statics(x, times, mode="add"):
    return x * times if mode == "multiply" else x + times


@partial(jax.jit, donate_argnums=0)
def states(state, x):
    return {name: value + x.sum() for name, value in state.items()}


for rows in (8, 8, 8, 5, 8):
    show("shapes", shapes(np.ones((rows, 3), np.float32), 2.0))
for scale in (3, 3.0, jnp.float32(3.0)):
    show("shapes", shapes(np.ones((8, 3), np.float32), scale))
for times, mode in ((1, "add"), (2, "add"), (2, "multiply"), (1, "add")):
    show("statics", statics(jnp.ones(2), times, mode=mode))
state = {"a": jnp.zeros(2)}
for _ in range(3):
    state = states(state, jnp.ones(2))
state["b"] = jnp.ones(2)
for _ in range(3):
    state = states(state, jnp.ones(2))
show("states", state)

# The same program again: XLA's work is in the persistent cache.
jax.clear_caches()
show("shapes", shapes(np.ones((8, 3), np.float32), 2.0))

# A new function in each round is compiled in each.
for _ in range(4):
    again = jax.jit(lambda x: x / 7)
    show("again", again(jnp.ones(3)))


@jax.jit
def refused(x):
    return x if x.sum() > 0 else -x


try:
    refused(jnp.ones(3))
except jax.errors.ConcretizationTypeError as error:
    print("refused", type(error).__name__)

shown = ("jaxpr_trace", "to_mlir", "backend_compile", "cache_hits", "cache_misses")
for known in (DURATIONS, EVENTS):
    print(sorted(item for item in known.items() if any(word in item[0] for word in shown)))
known = jax.jit(lambda: 0)
print("lists", len(jax.monitoring.__dict__))
jax.monitoring.clear_event_listeners()
counts = {"shapes": 9, "statics": 4, "states": 6, "<lambda>": 4}
print("COUNTS", json.dumps(counts))
