"""Say why functions of JAX are compiled again, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tfprobe.analysis.steps.recompilations import Recompiled
from tfprobe.findings.finding import Evidence

_SHOWN = 3
_NEW_FUNCTIONS = (
    "Each call of jax.jit makes a function that is compiled anew. Make it once, outside of the "
    "loop; a lambda, a partial or a method of a new object is another function each time."
)
_UNCHANGED = (
    "No argument differs: something clears the caches (jax.clear_caches, clear_cache of the "
    "function), or sets an option of JAX between calls. The persistent cache "
    "(jax_compilation_cache_dir) saves XLA's part."
)
_UNKNOWN = (
    "What differs is not known: the function takes too many arrays. JAX says it, if "
    "JAX_EXPLAIN_CACHE_MISSES=1 is set."
)
# By what differs, the first that applies.
_ACTIONS = (
    ("static value", "Each value of a static argument is compiled for. Pass it as an array, unless "
     "the function branches on it or a shape depends on it."),
    ("structure", "Arguments of another structure are compiled for: give dictionaries, lists and "
     "dataclasses the same keys, lengths and fields that are no arrays in each call."),
    ("type", "Arguments of another type are compiled for: convert them before the call."),
    ("shape", "Each shape is compiled for. Pad to a few lengths or batch sizes, and drop the last "
     "batch of a data set if it is smaller."),
    ("dtype", "Each dtype is compiled for. Convert arguments once, where they are made, for "
     "example by jnp.asarray(x, jnp.float32)."),
    ("weak type", "A Python number and an array of the same type are compiled for separately. Pass "
     "one of them always, for example jnp.float32(x)."),
    ("sharding", "Each sharding is compiled for. Place arguments once, by jax.device_put, as the "
     "results of the function are placed."),
)  # fmt: skip


def evidence_of(functions: Sequence[Recompiled]) -> Iterator[Evidence]:
    """Yield which functions were compiled again, the longest first, and what differed."""
    for function in functions[:_SHOWN]:
        yield from _evidence(function)


def _evidence(function: Recompiled) -> Iterator[Evidence]:
    yield Evidence(
        f"{function.name}, compiled {function.count:,} times",
        time_ns=function.further_ns,
        source=function.source,
    )
    if function.new_functions:
        yield Evidence(f"of a new function: {function.new_functions:,} times")
    if function.unchanged:
        yield Evidence(f"for the same arguments: {function.unchanged:,} times")
    for change in function.changes:
        example = change.example
        words = f"{example.before or 'nothing'} and then {example.after or 'nothing'}"
        has = f"{example.argument} has another {example.what}"
        yield Evidence(f"{has}, such as {words}: {change.count:,} times")


def remedy_of(function: Recompiled) -> str:
    """Return what to do about that which differs most often."""
    changed = function.changes[0].count if function.changes else 0
    if not (changed or function.new_functions or function.unchanged):
        return _UNKNOWN
    if function.new_functions >= max(changed, function.unchanged):
        return _NEW_FUNCTIONS
    if function.unchanged > changed:
        return _UNCHANGED
    differs = function.changes[0].example.what.split(", ")
    return next(action for what, action in _ACTIONS if what in differs)
