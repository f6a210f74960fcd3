"""Fail in each way in which a compiled function can; print the tracebacks, and end in one."""

import functools
import json
import re
import sys
import traceback

import jax
import jax.numpy as jnp
import numpy as np

COUNTS = {"static": 0, "donating": 10, "step": 3, "calling": 0}


class Failing(Exception):
    pass


@jax.jit
def inner(x):
    if kind == "traced":
        raise Failing("while tracing")
    if kind == "shapes":
        return x @ jnp.ones((7, 7))
    if kind == "tracer":
        return bool(x.sum() > 0)
    return x + 1


@jax.jit
def step(x):
    return inner(x) * 2


@functools.partial(jax.jit, static_argnums=0)
def static(times, x):
    return x * times


@functools.partial(jax.jit, donate_argnums=0)
def donating(x):
    return x + 1


def failing_host(x):
    raise Failing("on the host")


@jax.jit
def calling(x):
    return jax.pure_callback(failing_host, jax.ShapeDtypeStruct((4,), jnp.float32), x)


def donated_twice(x):
    print("first", np.asarray(donating(x)).tobytes().hex())
    donating(x)


def deleted(read):
    """Return what reads an array that is gone, because its buffers were donated."""

    def fail(x):
        donating(x)
        read(x)

    return fail


def without_numbers(x):
    jax.config.update("jax_debug_nans", True)
    try:
        jax.jit(lambda x: jnp.log(x - 5))(x)
    finally:
        jax.config.update("jax_debug_nans", False)


FAILURES = {
    "traced": step,
    "shapes": step,
    "tracer": step,
    "static": lambda x: static([1], x),
    "argument": lambda _: step("no array"),
    "missing": lambda _: step(),
    "grad": lambda x: jax.grad(step)(x),
    "donated": donated_twice,
    "callback": lambda x: np.asarray(calling(x)),
    "compiled": lambda x: step.lower(x).compile()(jnp.ones(5)),
    "attribute": lambda _: step.missing,
    "decorating": lambda _: jax.jit(3),
    "nan": without_numbers,
    "read": deleted(float),
    "read as an array": deleted(np.asarray),
    "shown": deleted(str),
    "formatted": deleted("{:.3f}".format),
    "item": deleted(lambda x: x.item()),
    "list": deleted(lambda x: x.tolist()),
    "fetched": deleted(jax.device_get),
    "waited for": deleted(lambda x: x.block_until_ready()),
    "waited for in a tree": deleted(lambda x: jax.block_until_ready({"x": x})),
    "not one value": lambda x: float(step(x)),
    "not one item": lambda x: step(x).item(),
    "not one truth": lambda x: bool(step(x)),
    "traced value": lambda x: jax.jit(float)(x),
    "traced wait": lambda x: jax.jit(lambda x: x.block_until_ready())(x),
}
for kind, fail in FAILURES.items():
    jax.clear_caches()
    try:
        fail(jnp.arange(4.0))
    except Exception as error:
        print(kind, type(error).__name__, type(error.__cause__).__name__)
        print(re.sub("0x[0-9a-f]+", "0x", traceback.format_exc()))
        # Before Python 3.11 a recording has a frame there.
        frames = traceback.extract_tb(error.__traceback__) if sys.version_info >= (3, 11) else []
        print("frames", [frame.name for frame in frames])
print("COUNTS", json.dumps(COUNTS), flush=True)
kind = "traced"
jax.clear_caches()
step(jnp.arange(4.0))
