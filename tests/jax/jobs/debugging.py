"""Step with JAX's switches for debugging; print results, log lines without numbers, and errors."""

import json
import logging
import re
import warnings

import jax
import jax.numpy as jnp
import numpy as np

COUNTS = {}


class Printing(logging.Handler):
    """Prints a line of JAX's log without addresses and times."""

    def emit(self, record):
        text = re.sub(r"0x[0-9a-f]+|id=\d+|[0-9.e-]+ sec", "-", record.getMessage())
        print(record.name, record.levelname, text)


def ran(name, times=1):
    COUNTS[name] = COUNTS.get(name, 0) + times


def show(name, value):
    print(name, np.asarray(value).tobytes().hex())


def fresh():
    """Return a function that was never compiled."""

    @jax.jit
    def inner(x):
        return x * x

    @jax.jit
    def step(x):
        return inner(x) + jnp.log(x)

    return step


warnings.showwarning = lambda message, category, file, line, *_: print(
    category.__name__, file.rpartition("/")[2], line, message
)
x = jnp.arange(1.0, 5.0)
with jax.disable_jit():
    step = fresh()
    for _ in range(5):
        show("not compiled", step(x))
    ran("step", 5)

step = fresh()
for _ in range(5):
    show("compiled", step(x))
ran("step", 5)
jax.config.update("jax_debug_nans", True)
show("without NaN", step(x))
ran("step")
try:
    step(-x)
except FloatingPointError as error:
    print("NaN", str(error).splitlines()[0], error.__traceback__.tb_lineno)
jax.config.update("jax_debug_nans", False)
show("NaN", step(-x))
ran("step")

logging.getLogger("jax").handlers[:] = [Printing()]
logging.getLogger("jax").propagate = False
with jax.log_compiles():
    show("logged", fresh()(x))
    ran("step")
jax.config.update("jax_explain_cache_misses", True)
explained = fresh()
show("explained", explained(x))
show("explained", explained(jnp.ones(3)))
ran("step", 2)
jax.config.update("jax_explain_cache_misses", False)


@jax.jit
def printing(x):
    jax.debug.print("from the step {x}", x=x)
    return x


show("printing", printing(x))
jax.effects_barrier()
ran("printing")


jax.jit(lambda x: x.sum(), donate_argnums=0)(jnp.ones(3))
ran("<lambda>")
print("backend", jax.jit(lambda x: x + 1, backend="cpu")(x))
ran("<lambda>")
jax.config.update("jax_traceback_filtering", "off")
with jax.transfer_guard("log"):
    show("guarded", step(x))
ran("step")
print("COUNTS", json.dumps(COUNTS))
