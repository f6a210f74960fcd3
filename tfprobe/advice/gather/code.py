"""Gather which scopes and lines of Python the ops of a work's sampled steps belong to."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tfprobe.advice.gather.busy import busy_ns
from tfprobe.advice.signals import CodeUse
from tfprobe.errors import Missing
from tfprobe.model.executions import Place
from tfprobe.model.sampled import SampledWork
from tfprobe.model.tables import Flags, Int64s
from tfprobe.views.origins import NO_LAYER, Origin, Origins

_TOP = 5
# Nodes that hand on what is there.
_NO_WORK = frozenset(
    {
        "Arg",
        "Const",
        "Identity",
        "IdentityN",
        "NoOp",
        "Placeholder",
        "PlaceholderWithDefault",
        "ReadVariableOp",
        "Retval",
        "StopGradient",
        "VarHandleOp",
        "VariableV2",
        "_Arg",
        "_Retval",
    }
)


def nodes(found: SampledWork) -> int | Missing:
    """Return how many nodes of the graph compute something, were it each once a step."""
    if not found.has_graph:
        return Missing("the recording has no graph of these steps")
    return sum(node.op not in _NO_WORK for node in found.graph.nodes)


def scopes(found: SampledWork) -> tuple[CodeUse, ...] | Missing:
    """Return the dearest layers: the innermost scopes that hold ops, with their gradients."""
    origins = Origins((found,))
    layers = (origins.of(node.name).layer for node in found.graph.nodes)
    names = ["" if layer == NO_LAYER else layer for layer in layers]
    uses = _uses(found, names)
    if not uses:
        return Missing("no op of the sampled steps is in a scope")
    return uses


def lines(found: SampledWork) -> tuple[CodeUse, ...] | Missing:
    """Return the dearest lines of the job's own code, those that made the ops."""
    if not found.graph.has_traces:
        return Missing("the recording does not say which code made the ops")
    origins = Origins((found,))
    names = [_line(origins.of(node.name)) for node in found.graph.nodes]
    uses = _uses(found, names)
    if not uses:
        return Missing("no op of the sampled steps was made by a known line")
    return tuple(CodeUse(use.name, use.busy_ns, use.name, use.node) for use in uses)


def _line(origin: Origin) -> str:
    return "" if origin.frame is None else f"{origin.frame.file}:{origin.frame.line}"


def _uses(found: SampledWork, names: list[str]) -> tuple[CodeUse, ...]:
    """Return the names by how long an op of them ran; "" is none."""
    known = sorted({name for name in names if name})
    numbers = {name: at for at, name in enumerate(known)}
    group_of = np.array([numbers.get(name, -1) for name in names], dtype=np.int64)
    rows = found.executions
    if not known or not len(rows):
        return ()
    chosen = _own(found) & (group_of[found.node] >= 0)
    capture = np.unique(rows.capture[chosen], return_inverse=True)[1]
    group = capture * len(known) + group_of[found.node[chosen]]
    count = max(len(found.captures), 1)
    start_ns = rows.start_ns[chosen]
    busy = busy_ns(group, count * len(known), start_ns, start_ns + rows.duration_ns[chosen])
    total = busy.reshape(count, len(known)).sum(axis=0)
    dearest = np.argsort(-total, kind="stable")[:_TOP].tolist()
    example = _examples(found, group_of, chosen, dearest)
    return tuple(CodeUse(known[at], int(total[at]) / count, "", example[at]) for at in dearest)


def _own(found: SampledWork) -> Flags:
    """Say which rows are of the place that counts: kernels where there are some, else the host."""
    rows = found.executions
    on_device: Flags = rows.place == Place.ACCELERATOR
    on_host: Flags = rows.place == Place.HOST
    return on_device if on_device.any() else on_host


def _examples(
    found: SampledWork, group_of: Int64s, chosen: Flags, groups: Iterable[int]
) -> dict[int, str]:
    """Return the node of each group whose one execution took longest."""
    node, duration_ns = found.node[chosen], found.executions.duration_ns[chosen]
    examples = {}
    for group in groups:
        rows = np.flatnonzero(group_of[node] == group)
        longest = rows[int(np.argmax(duration_ns[rows]))] if len(rows) else None
        examples[group] = "" if longest is None else found.graph.nodes[int(node[longest])].name
    return examples
