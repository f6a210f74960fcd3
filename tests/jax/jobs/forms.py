"""Call compiled functions in every form that JAX has; print what each gave and how often it ran."""

import copy
import json
import pickle
import weakref
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

COUNTS = {}


def ran(name, times=1):
    COUNTS[name] = COUNTS.get(name, 0) + times


@jax.jit
def decorated(x):
    """Twice x."""
    return 2 * x


@partial(jax.jit, static_argnums=1)
def static(x, times):
    return x * times


@partial(jax.jit, donate_argnums=0)
def donating(state, x):
    return jax.tree_util.tree_map(lambda leaf: leaf + x, state)


class Model:
    def __init__(self, scale):
        self.scale = scale

    @partial(jax.jit, static_argnums=0)
    def method(self, x):
        return self.scale * x


@jax.jit
def outer(x):
    return decorated(x) + static(x, 3)


class Failing(Exception):
    pass


@jax.jit
def failing(x):
    raise Failing("while tracing")


def show(name, value):
    print(name, np.asarray(value).tobytes().hex())


x = jnp.arange(4.0)
for _ in range(30):
    show("decorated", decorated(x))
ran("decorated", 30)
for times in (1, 2, 3, 3):
    show("static", static(x, times))
ran("static", 4)
state = {"a": jnp.zeros(4), "b": (jnp.ones(4), None)}
for _ in range(25):
    state = donating(state, x)
show("donating", state["b"][0])
ran("donating", 25)
model = Model(3.0)
for _ in range(5):
    show("method", model.method(x))
show("method of the class", Model.method(model, x))
ran("method", 6)
for _ in range(7):
    show("outer", outer(x))
ran("outer", 7)

called = jax.jit(lambda x: x - 1)
for _ in range(3):
    show("lambda", called(x))
ran("<lambda>", 3)

show("vmap", jax.vmap(decorated)(jnp.ones((3, 2))))
show("grad", jax.grad(lambda x: decorated(x).sum())(x))
show("jit of jit", jax.jit(decorated)(x))
ran("decorated", 1)

compiled = decorated.lower(x).compile()
for _ in range(4):
    show("compiled", compiled(x))
ran("compiled decorated", 4)


def plus_one(x):
    return x + 1


parallel = jax.pmap(plus_one)
for _ in range(3):
    show("pmap", parallel(jnp.ones((1, 3))))
ran("plus_one", 3)
parallel_named = jax.pmap(plus_one, "devices")
show("pmap over an axis", parallel_named(jnp.ones((1, 3))))
ran("plus_one")

try:
    failing(x)
except Failing as error:
    print("failing", error)

print("wrapped", isinstance(decorated, jax.stages.Wrapped), callable(decorated))
print("names", decorated.__name__, decorated.__doc__, decorated.__module__, decorated.__qualname__)
print("cache", decorated._cache_size(), static._cache_size())
print("shape", jax.eval_shape(decorated, x), jax.make_jaxpr(decorated)(x))
print(
    "is", decorated == decorated, weakref.ref(decorated)() is decorated, {decorated: 1}[decorated]
)
try:
    import cloudpickle
except ImportError:
    pass
else:
    show("pickled", pickle.loads(cloudpickle.dumps(decorated))(x))
    try:
        show("pickled pmap", pickle.loads(cloudpickle.dumps(parallel))(jnp.ones((1, 3))))
    except TypeError as error:
        print("pickled pmap", error)
show("copied", copy.copy(decorated)(x))
ran("decorated")
decorated.clear_cache()
print("cleared", decorated._cache_size())
decorated.note = 1
print("attribute", decorated.note)
del decorated.note
print("attribute", hasattr(decorated, "note"))
print("COUNTS", json.dumps(COUNTS))
