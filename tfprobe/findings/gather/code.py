"""Gather which scopes and lines of Python the ops of a work's sampled steps belong to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

import numpy as np

from tfprobe.analysis.core.op_attribution import NO_LAYER, Origin, Origins
from tfprobe.errors import Missing
from tfprobe.findings.gather.busy import busy_ns
from tfprobe.findings.gather.ops import waits_or_calls
from tfprobe.findings.signals import CodeUse
from tfprobe.profile.capture_tables import Place
from tfprobe.profile.graph import SampledWork
from tfprobe.profile.tables import Flags, Int64s

_TOP = 5
_DOUBLE = "DT_DOUBLE"
_GATHERS = frozenset({"Gather", "GatherV2", "ResourceGather"})
# What TensorFlow turns IndexedSlices into a tensor with.
_MAKES_DENSE = "UnsortedSegmentSum"
# What hands on one-hot vectors as they are, and what multiplies them.
_SAME_ROWS = frozenset({"Cast", "ExpandDims", "Identity", "Reshape", "Squeeze"})
_PRODUCTS = frozenset({"BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "Einsum", "MatMul"})
_OF_SESSION = ".run_metadata.pb"
_CONDITIONS = frozenset({"Case", "If", "StatelessCase", "StatelessIf"})
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
    """Return how many nodes of the graph compute something, were it each once a step.

    What a Session records are all ops that ran, and its graph has those of other steps, too. Of
    branches of a condition at most one runs.
    """
    if not found.has_graph:
        return Missing("the recording has no graph of these steps")
    if any(each.file.endswith(_OF_SESSION) for each in found.captures):
        return Missing("the recording has every op that ran")
    in_branches = frozenset[str]().union(
        *(
            found.insides.get(node.name, frozenset())
            for node in found.graph.nodes
            if node.op in _CONDITIONS
        )
    )
    return sum(
        node.op not in _NO_WORK and node.name not in in_branches for node in found.graph.nodes
    )


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


def ops_source(found: SampledWork) -> str:
    """Return the line of the job that made most of the ops; "" where no line did."""
    if not found.graph.has_traces:
        return ""
    origins = Origins((found,))
    made = [_line(origins.of(n.name)) for n in found.graph.nodes if n.op not in _NO_WORK]
    lines = Counter(line for line in made if line)
    [(line, count)] = lines.most_common(1) or [("", 0)]
    return line if count > len(made) / 2 else ""


def double(found: SampledWork) -> CodeUse | Missing:
    """Return what computes in 64 bits on the host, with its dearest line."""
    nodes = found.graph.nodes
    if not any(node.dtypes for node in nodes):
        return Missing("the recording does not say in which type ops compute")
    is_double = [node.dtypes[:1] == (_DOUBLE,) and node.op not in _NO_WORK for node in nodes]
    whole = _uses(found, ["64 bits" if each else "" for each in is_double])
    if not whole or not whole[0].busy_ns:
        return CodeUse("", 0.0)
    origins = Origins((found,))
    lines = _uses(
        found,
        [
            _line(origins.of(node.name)) if each else ""
            for node, each in zip(nodes, is_double, strict=True)
        ],
    )
    source = lines[0].name if lines else ""
    return CodeUse(whole[0].name, whole[0].busy_ns, source, whole[0].node)


def dense_gradient(found: SampledWork) -> CodeUse | Missing:
    """Return what computes on whole tables because a sparse gradient was made dense.

    Those are the ops that take what UnsortedSegmentSum made of the rows, and in a graph with such
    ones what is computed from a table before its rows are taken. The line is that of the look-up.
    """
    if not found.has_graph:
        return Missing("the recording has no graph of these steps")
    nodes = {node.name: node for node in found.graph.nodes}
    gathers = [node for node in nodes.values() if node.op in _GATHERS]
    made_dense = {node.name for node in nodes.values() if node.op == _MAKES_DENSE}
    if not gathers or not made_dense:
        return CodeUse("", 0.0)
    takers: dict[str, list[str]] = {}
    for node in nodes.values():
        for producer in node.inputs.values():
            takers.setdefault(producer, []).append(node.name)
    whole = _reached(made_dense, lambda name: takers.get(name, ()))
    tables = {gather.inputs[0] for gather in gathers if 0 in gather.inputs}
    whole |= _reached(tables, lambda name: nodes[name].inputs.values() if name in nodes else ())
    uses = _uses(found, ["dense" if node.name in whole else "" for node in found.graph.nodes])
    if not uses:
        return CodeUse("", 0.0)
    source = _line(Origins((found,)).of(gathers[0].name))
    return CodeUse(uses[0].name, uses[0].busy_ns, source, uses[0].node)


def one_hot(found: SampledWork) -> CodeUse | Missing:
    """Return what one-hot vectors and the products with them take; the line is of the dearest."""
    if not found.has_graph:
        return Missing("the recording has no graph of these steps")
    nodes = {node.name: node for node in found.graph.nodes}
    vectors = {node.name for node in nodes.values() if node.op == "OneHot"}
    handed_on = {node.name for node in nodes.values() if node.op in _SAME_ROWS}
    takers: dict[str, list[str]] = {}
    for node in nodes.values():
        for producer in node.inputs.values():
            takers.setdefault(producer, []).append(node.name)
    same = _reached(vectors, lambda name: [on for on in takers.get(name, ()) if on in handed_on])
    products = {
        taker for name in same for taker in takers.get(name, ()) if nodes[taker].op in _PRODUCTS
    }
    if not products:
        return CodeUse("", 0.0)
    used = products | same
    uses = _uses(found, ["one-hot" if node.name in used else "" for node in found.graph.nodes])
    if not uses:
        return CodeUse("", 0.0)
    source = _line(Origins((found,)).of(uses[0].node))
    return CodeUse(uses[0].name, uses[0].busy_ns, source, uses[0].node)


def _reached(names: Iterable[str], steps: Callable[[str], Iterable[str]]) -> set[str]:
    """Return these names and all that are reached from them."""
    found, left = set(names), list(names)
    while left:
        for name in steps(left.pop()):
            if name not in found:
                found.add(name)
                left.append(name)
    return found


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
    on_host: Flags = (rows.place == Place.HOST) & ~waits_or_calls(rows)
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
