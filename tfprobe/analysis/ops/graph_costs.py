"""Say what parts of a graph cost in traced steps: scopes, lines, patterns of ops, loops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from tfprobe.analysis.breakdown.step_parts import GET_NEXT
from tfprobe.analysis.core.intervals import busy_ns_by_group
from tfprobe.analysis.core.source_lines import NO_LAYER, Origin, Origins
from tfprobe.analysis.ops.step_ops import waits_or_calls
from tfprobe.errors import Missing
from tfprobe.profile.capture_tables import Place
from tfprobe.profile.graph import TracedLoop
from tfprobe.profile.tables import Flags, Int64s

_TOP = 5
_DOUBLE = "DT_DOUBLE"
_GATHERS = frozenset({"Gather", "GatherV2", "ResourceGather"})
# The op with which TensorFlow turns IndexedSlices into a tensor.
_MAKES_DENSE = "UnsortedSegmentSum"
# Ops that pass one-hot vectors on unchanged, and ops that multiply them.
_SAME_ROWS = frozenset({"Cast", "ExpandDims", "Identity", "Reshape", "Squeeze"})
_PRODUCTS = frozenset({"BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "Einsum", "MatMul"})
_OF_SESSION = ".run_metadata.pb"
_CONDITIONS = frozenset({"Case", "If", "StatelessCase", "StatelessIf"})
# Nodes that only pass a value on.
_PASS_ON = frozenset(
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


@dataclass(frozen=True, slots=True)
class CodeCost:
    """A scope, a line of Python or a pattern of ops, and how long any op of it ran in a step."""

    name: str
    busy_ns: float
    source: str = ""
    node: str = ""


@dataclass(frozen=True, slots=True)
class GraphLoop:
    """A loop within the graph: its iterations per step, as far as they were traced, and how long.

    `small_ns` is the time from its first op to its last in which only tiny ops ran, or none.
    `turns` is 0 if none of its ops was traced, because TensorFlow traces no cheap ops.
    """

    name: str
    turns: float
    small_ns: float
    source: str


def computing_nodes(found: TracedLoop) -> int | Missing:
    """Return how many nodes of the graph compute something, each at most once per step.

    Missing for a Session: it records every op that ran, and its graph holds ops of other steps.
    Branches of a condition do not count, because at most one of them runs.
    """
    if not found.has_graph:
        return Missing("the recording has no graph of these steps")
    if any(capture.file.endswith(_OF_SESSION) for capture in found.captures):
        return Missing("the recording has every op that ran")
    in_branches = frozenset[str]().union(
        *(
            found.insides.get(node.name, frozenset())
            for node in found.graph.nodes
            if node.op in _CONDITIONS
        )
    )
    return sum(
        node.op not in _PASS_ON and node.name not in in_branches for node in found.graph.nodes
    )


def costliest_scopes(found: TracedLoop) -> tuple[CodeCost, ...] | Missing:
    """Return the layers that take longest: innermost scopes with ops, including their gradients."""
    origins = Origins((found,))
    layers = (origins.of(node.name).layer for node in found.graph.nodes)
    names = ["" if layer == NO_LAYER else layer for layer in layers]
    uses = _uses(found, names)
    if not uses:
        return Missing("no op of the traced steps is in a scope")
    return uses


def costliest_lines(found: TracedLoop) -> tuple[CodeCost, ...] | Missing:
    """Return the lines of the job whose ops take longest."""
    if not found.graph.has_traces:
        return Missing("the recording has no source lines of the ops")
    origins = Origins((found,))
    names = [_line(origins.of(node.name)) for node in found.graph.nodes]
    uses = _uses(found, names)
    if not uses:
        return Missing("no op of the traced steps was made by a known line")
    return tuple(CodeCost(use.name, use.busy_ns, use.name, use.node) for use in uses)


def main_source_line(found: TracedLoop) -> str:
    """Return the line of the job that made more than half of the ops, "" where none did."""
    if not found.graph.has_traces:
        return ""
    origins = Origins((found,))
    made = [_line(origins.of(n.name)) for n in found.graph.nodes if n.op not in _PASS_ON]
    lines = Counter(line for line in made if line)
    [(line, count)] = lines.most_common(1) or [("", 0)]
    return line if count > len(made) / 2 else ""


def source_line(found: TracedLoop, node: str) -> str:
    """Return the line of the job that a node comes from, "" where it is not known."""
    return _line(Origins((found,)).of(node))


def double_precision(found: TracedLoop) -> CodeCost | Missing:
    """Return what computes in 64 bits on the host, with the line that takes longest."""
    nodes = found.graph.nodes
    if not any(node.dtypes for node in nodes):
        return Missing("the recording has no data types of the ops")
    is_double = [node.dtypes[:1] == (_DOUBLE,) and node.op not in _PASS_ON for node in nodes]
    whole = _uses(found, ["64 bits" if each else "" for each in is_double])
    if not whole or not whole[0].busy_ns:
        return CodeCost("", 0.0)
    origins = Origins((found,))
    lines = _uses(
        found,
        [
            _line(origins.of(node.name)) if each else ""
            for node, each in zip(nodes, is_double, strict=True)
        ],
    )
    source = lines[0].name if lines else ""
    return CodeCost(whole[0].name, whole[0].busy_ns, source, whole[0].node)


def dense_gradients(found: TracedLoop) -> CodeCost | Missing:
    """Return what computes on whole tables because a sparse gradient was made dense.

    These are the ops after the UnsortedSegmentSum of the rows, and in a graph with such ops also
    those that compute a table before its rows are looked up. The line is that of the look-up.
    """
    if not found.has_graph:
        return Missing("the recording has no graph of these steps")
    nodes = {node.name: node for node in found.graph.nodes}
    gathers = [node for node in nodes.values() if node.op in _GATHERS]
    made_dense = {node.name for node in nodes.values() if node.op == _MAKES_DENSE}
    if not gathers or not made_dense:
        return CodeCost("", 0.0)
    takers: dict[str, list[str]] = {}
    for node in nodes.values():
        for producer in node.inputs.values():
            takers.setdefault(producer, []).append(node.name)
    whole = _reached(made_dense, lambda name: takers.get(name, ()))
    tables = {gather.inputs[0] for gather in gathers if 0 in gather.inputs}
    whole |= _reached(tables, lambda name: nodes[name].inputs.values() if name in nodes else ())
    uses = _uses(found, ["dense" if node.name in whole else "" for node in found.graph.nodes])
    if not uses:
        return CodeCost("", 0.0)
    source = _line(Origins((found,)).of(gathers[0].name))
    return CodeCost(uses[0].name, uses[0].busy_ns, source, uses[0].node)


def one_hot_products(found: TracedLoop) -> CodeCost | Missing:
    """Return what one-hot vectors and products with them take, with the line that takes longest."""
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
        return CodeCost("", 0.0)
    used = products | same
    uses = _uses(found, ["one-hot" if node.name in used else "" for node in found.graph.nodes])
    if not uses:
        return CodeCost("", 0.0)
    source = _line(Origins((found,)).of(uses[0].node))
    return CodeCost(uses[0].name, uses[0].busy_ns, source, uses[0].node)


def _reached(names: Iterable[str], steps: Callable[[str], Iterable[str]]) -> set[str]:
    """Return these names, and all that can be reached from them."""
    found, left = set(names), list(names)
    while left:
        for name in steps(left.pop()):
            if name not in found:
                found.add(name)
                left.append(name)
    return found


def _line(origin: Origin) -> str:
    return "" if origin.frame is None else f"{origin.frame.file}:{origin.frame.line}"


def _uses(found: TracedLoop, names: list[str]) -> tuple[CodeCost, ...]:
    """Return the names by how long any op of theirs ran; nodes with the name "" are left out."""
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
    busy = busy_ns_by_group(
        group, count * len(known), start_ns, start_ns + rows.duration_ns[chosen]
    )
    total = busy.reshape(count, len(known)).sum(axis=0)
    order = np.argsort(-total, kind="stable")[:_TOP].tolist()
    example = _examples(found, group_of, chosen, order)
    return tuple(CodeCost(known[at], int(total[at]) / count, "", example[at]) for at in order)


def _own(found: TracedLoop) -> Flags:
    """Say which rows count: kernels where there are some, else ops of the host."""
    rows = found.executions
    on_device: Flags = rows.place == Place.ACCELERATOR
    on_host: Flags = (rows.place == Place.HOST) & ~waits_or_calls(rows)
    return on_device if on_device.any() else on_host


def _examples(
    found: TracedLoop, group_of: Int64s, chosen: Flags, groups: Iterable[int]
) -> dict[int, str]:
    """Return the node with the longest execution, for each group; what it called has its own."""
    rows_of = found.executions
    node = found.node[chosen]
    duration_ns = (rows_of.duration_ns - rows_of.nested_ns)[chosen]
    examples = {}
    for group in groups:
        rows = np.flatnonzero(group_of[node] == group)
        longest = rows[int(np.argmax(duration_ns[rows]))] if len(rows) else None
        examples[group] = "" if longest is None else found.graph.nodes[int(node[longest])].name
    return examples


_LOOPS = frozenset({"While", "StatelessWhile"})
# In graphs of TensorFlow 1 a loop is a frame with one node of this type.
_CONDITION = "LoopCond"
_NEVER = int(np.iinfo(np.int64).max)


def graph_loop(found: TracedLoop, *, tiny_ns: float) -> GraphLoop | Missing:
    """Return the loop of the graph with most time in which only tiny ops run, or none.

    Its time ends with the first op that takes its result, else with its last op: TensorFlow traces
    no op that it has found to be cheap, so most iterations are not seen. A loop that takes input is
    one over steps, like that of Keras' steps_per_execution, and does not count.
    """
    if not found.has_graph:
        return Missing("the recording has no graph of these steps")
    takes_input = np.array(
        [node.op.startswith(GET_NEXT) for node in found.graph.nodes], dtype=np.bool_
    )
    names = (name for name in _names(found) if not (takes_input & _inside(found, name)).any())
    loops = [_loop(found, name, tiny_ns) for name in sorted(names)]
    return max(loops, key=lambda timing: timing.small_ns, default=GraphLoop("", 0.0, 0.0, ""))


def _names(found: TracedLoop) -> set[str]:
    """Return the names of loops, which are prefixes of the names of their nodes."""
    names = {node.name for node in found.graph.nodes if node.op in _LOOPS}
    conditions = (node.name for node in found.graph.nodes if node.op == _CONDITION)
    return names | {name.rpartition("/")[0] for name in conditions if "/" in name}


def _loop(found: TracedLoop, name: str, tiny_ns: float) -> GraphLoop:
    rows, captures = found.executions, max(len(found.captures), 1)
    loops: Flags = (rows.place == Place.HOST) & ~waits_or_calls(rows) & (found.node >= 0)
    inside = loops & _inside(found, name)[found.node]
    if not loops.any():
        return GraphLoop(name, 0.0, 0.0, "")
    capture = np.unique(rows.capture, return_inverse=True)[1].astype(np.int64)
    first, last = _bounds(found, name, loops, inside, capture)
    ends_ns: Int64s = rows.start_ns + rows.duration_ns
    start_ns, end_ns = np.maximum(rows.start_ns, first[capture]), np.minimum(ends_ns, last[capture])
    large = loops & (rows.duration_ns >= tiny_ns) & (end_ns > start_ns)
    covered = busy_ns_by_group(capture[large], len(first), start_ns[large], end_ns[large])
    frame = Origins((found,)).of(name).frame
    nodes = len(found.graph.nodes)
    return GraphLoop(
        name=name,
        turns=float(np.bincount(capture[inside] * nodes + found.node[inside]).max(initial=0)),
        small_ns=max(int((last - first).sum()) - int(covered.sum()), 0) / captures,
        source="" if frame is None else f"{frame.file}:{frame.line}",
    )


def _bounds(
    found: TracedLoop, name: str, loops: Flags, inside: Flags, capture: Int64s
) -> tuple[Int64s, Int64s]:
    """Return when the loop ran in each capture.

    Where none of its ops was traced, it is the time before the first op that takes its result.
    """
    rows, count = found.executions, int(capture.max()) + 1
    ends_ns: Int64s = rows.start_ns + rows.duration_ns
    first = _earliest(capture[inside], rows.start_ns[inside], count)
    last = -_earliest(capture[inside], -ends_ns[inside], count)
    later = loops & _takers(found, name)[found.node] & (rows.start_ns >= last[capture])
    taken = _earliest(capture[later], rows.start_ns[later], count)
    before = loops & (ends_ns <= taken[capture])
    dark = -_earliest(capture[before], -ends_ns[before], count)
    is_dark, is_taken = first == _NEVER, taken != _NEVER
    last = np.where(is_taken, taken, last)
    first = np.where(is_dark, np.where(is_taken & (dark != -_NEVER), dark, last), first)
    return first, last


def _inside(found: TracedLoop, name: str) -> Flags:
    """Say which nodes are in the loop."""
    known = found.insides.get(name, frozenset())
    flags = [node.name.startswith(f"{name}/") or node.name in known for node in found.graph.nodes]
    return np.array(flags, dtype=np.bool_)


def _takers(found: TracedLoop, name: str) -> Flags:
    """Say which nodes take a result of the loop."""
    flags = [name in node.inputs.values() for node in found.graph.nodes]
    return np.array(flags, dtype=np.bool_)


def _earliest(capture: Int64s, at_ns: Int64s, count: int) -> Int64s:
    found = np.full(count, _NEVER)
    np.minimum.at(found, capture, at_ns)
    return found
