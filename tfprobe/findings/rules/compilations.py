"""Say why functions are compiled again, where graphs break, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tfprobe.analysis.steps.recompilations import BreakSite, ChangeCount, Recompiled
from tfprobe.findings.finding import Evidence

_SHOWN = 3
_NEW_FUNCTIONS = (
    "Each call of jax.jit makes a function that is compiled anew. Make it once, outside of the "
    "loop; a lambda, a partial or a method of a new object is another function each time."
)
_NEW_FUNCTIONS_OF_TORCH = (
    "Nothing of an earlier compilation fits: it is another object each time. Make the module or "
    "function, and call torch.compile, once, outside of the loop."
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

_UNKNOWN_TO_TORCH = "What differs is not known. PyTorch says it, if TORCH_LOGS=recompiles is set."
# The same, by how the words for it begin.
_ACTIONS_OF_TORCH = (
    ("size", "Each size is compiled for. Leave dynamic=False out, or say what varies: "
     "torch._dynamo.mark_dynamic(x, 0) before the call, or torch.compile(f, dynamic=True). Else "
     "pad to a few lengths, and let the DataLoader drop_last=True."),
    ("rank", "Give tensors the same number of dimensions in each call."),
    ("stride", "Each layout is compiled for: call .contiguous() where the tensor is made."),
    ("dtype", "Each dtype is compiled for. Convert tensors once, where they are made."),
    ("requires_grad", "Tensors with and without gradients are compiled for separately: .detach() "
     "those that need none."),
    ("global state", "Each mode is compiled for. Call the function in one mode (grad, autocast, "
     "inference), or compile a function of its own for each."),
    ("value", "Each value of a number or string of Python is compiled for. Pass a number that "
     "changes as a tensor, torch.tensor(n), or say torch.compile(f, dynamic=True); keep counters "
     "out of the compiled function, or as buffers of the module."),
    ("length", "Each length of a list or tuple is compiled for: pass one tensor (torch.stack), or "
     "pad the list."),
    ("keys", "Dictionaries with other keys are compiled for: pass the same keys in each call."),
    ("type", "Arguments of another type are compiled for: convert them before the call."),
    ("object", "Another object is compiled for: make it once, outside of the loop, and pass the "
     "same one in each call."),
    ("", "TORCH_LOGS=recompiles lets PyTorch say more of it."),
)  # fmt: skip


def title_of(function: Recompiled) -> str:
    """Return the title of a finding about functions of the same compiler."""
    if function.is_of_torch:
        return "torch.compile compiles functions again and again"
    return "Functions of JAX are compiled again and again"


def evidence_of(
    functions: Sequence[Recompiled], breaks: Sequence[BreakSite] = ()
) -> Iterator[Evidence]:
    """Yield which functions were compiled again, the longest first, and what differed."""
    given_up = {site.name for site in breaks if site.is_skipped and _is_of(site, _LIMITS)}
    for function in functions[:_SHOWN]:
        yield from _evidence(function)
        if function.name in given_up:
            yield Evidence("PyTorch's limit is reached: other calls run uncompiled")


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
        yield Evidence(f"{_words(change)}: {change.count:,} times")


def _words(change: ChangeCount) -> str:
    example = change.example
    if example.what == "guard":
        return f"this does not hold any more: {example.before}"
    has = f"{example.argument} has another {example.what}"
    if example.after == "another":
        return f"{has} than {example.before}"
    return f"{has}, such as {example.before or 'nothing'} and then {example.after or 'nothing'}"


def remedy_of(function: Recompiled) -> str:
    """Return what to do about that which differs most often."""
    changed = function.changes[0].count if function.changes else 0
    if function.is_of_torch:
        return _remedy_of_torch(function, changed)
    if not (changed or function.new_functions or function.unchanged):
        return _UNKNOWN
    if function.new_functions >= max(changed, function.unchanged):
        return _NEW_FUNCTIONS
    if function.unchanged > changed:
        return _UNCHANGED
    differs = function.changes[0].example.what.split(", ")
    return next(action for what, action in _ACTIONS if what in differs)


def _remedy_of_torch(function: Recompiled, changed: int) -> str:
    if not changed and not function.new_functions:
        return _UNKNOWN_TO_TORCH
    if function.new_functions > changed:
        return _NEW_FUNCTIONS_OF_TORCH
    what = function.changes[0].example.what
    return next(action for start, action in _ACTIONS_OF_TORCH if what.startswith(start))


_MOST_BREAKS = 5
# By words of PyTorch's reason, the first that applies.
_LIMITS = ("recompile limit", "cache_size_limit")
_BREAKS = (
    (_LIMITS, "It was compiled too often and now runs as Python: "
     "see recompiling, or TORCH_LOGS=recompiles."),
    ((".item", "_local_scalar_dense", "data-dependent", "Data-dependent", "generic_jump"),
     "A value of a tensor is read on the host. Keep it as a tensor (torch.where in place of if), "
     "read it outside of the compiled function, or set "
     "torch._dynamo.config.capture_scalar_outputs = True for .item()."),
    (("print", "logging", "Logger"), "Print and log outside of the compiled function, or add "
     "the call to torch._dynamo.config.reorderable_logging_functions."),
    (("numpy",), "Compute with tensors in place of NumPy."),
    (("graph_break()", "disable"), "The program asks for it: torch._dynamo.graph_break or "
     "torch.compiler.disable; leave it out where the code can be traced."),
)  # fmt: skip
_OTHER_BREAKS = (
    "Move what cannot be traced out of the compiled function, or compile the parts before and "
    "after it. torch.compile(f, fullgraph=True) raises at the first break."
)


def breaks_of(sites: Sequence[BreakSite]) -> Iterator[Evidence]:
    """Yield where graphs break, and why."""
    for site in sites[:_MOST_BREAKS]:
        where = "runs uncompiled" if site.is_skipped else "breaks"
        yield Evidence(f"{site.name} {where}: {site.reason}", source=site.source)
    if len(sites) > _MOST_BREAKS:
        yield Evidence(f"and at {len(sites) - _MOST_BREAKS:,} more lines")


def remedy_of_breaks(sites: Sequence[BreakSite]) -> str:
    """Return what to do about each kind of break, once."""
    return " ".join(dict.fromkeys(map(_action_for, sites)))


def _action_for(site: BreakSite) -> str:
    return next((action for words, action in _BREAKS if _is_of(site, words)), _OTHER_BREAKS)


def _is_of(site: BreakSite, words: Sequence[str]) -> bool:
    return any(word in site.reason for word in words)
