"""Run programs of several kinds, each in a window of its own; print what JAX says that each costs.

The first argument is the folder that the captures are written to.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

try:
    from jaxlib import _profiler as profiler
except ImportError:
    from jaxlib.xla_extension import profiler

OUT = Path(sys.argv[1])
FOLDED = jax.random.normal(jax.random.PRNGKey(0), (64, 64))


def products(x: Any) -> Any:
    return jnp.sum((x @ x) @ jnp.sin(x @ x))


def donated(x: Any) -> Any:
    return x + x @ x


def loop(x: Any) -> Any:
    return jax.lax.scan(lambda carry, row: (jnp.tanh(carry @ x + row), carry), x[0], x)


def sorting(x: Any) -> Any:
    return jnp.sort(x @ x, axis=0) @ x


def choice(x: Any) -> Any:
    return jax.lax.cond(x[0, 0] > 0, lambda y: y @ y, jnp.sin, x)


PROGRAMS = {
    "products": {},
    "donated": {"donate_argnums": 0},
    "loop": {},
    "sorting": {},
    "choice": {},
}


def window() -> Any:
    options = profiler.ProfileOptions()
    options.enable_hlo_proto = True
    options.python_tracer_level = 0
    return profiler.ProfilerSession(options)


def main() -> None:
    known = {}
    for name, options in PROGRAMS.items():
        jitted = jax.jit(globals()[name], **options)
        analysis = jitted.lower(FOLDED).compile().memory_analysis()
        jax.block_until_ready(jitted(jnp.array(FOLDED)))
        given = jax.block_until_ready(jnp.array(FOLDED))
        session = window()
        jax.block_until_ready(jitted(given))
        (OUT / f"{name}.xplane.pb").write_bytes(session.stop())
        known[name] = [
            analysis.argument_size_in_bytes,
            analysis.output_size_in_bytes,
            analysis.alias_size_in_bytes,
            analysis.temp_size_in_bytes,
        ]
    print(json.dumps(known))


if __name__ == "__main__":
    main()
