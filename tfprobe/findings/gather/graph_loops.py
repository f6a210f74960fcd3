"""Gather what loops within the graph of a work cost: tf.while_loop, and for-loops over tensors."""

from __future__ import annotations

import numpy as np

from tfprobe.analysis.core.op_attribution import Origins
from tfprobe.analysis.input.pipeline_timeline import GET_NEXT
from tfprobe.errors import Missing
from tfprobe.findings.gather.busy import busy_ns
from tfprobe.findings.gather.ops import waits_or_calls
from tfprobe.findings.signals import GraphLoop
from tfprobe.profile.capture_tables import Place
from tfprobe.profile.graph import SampledWork
from tfprobe.profile.tables import Flags, Int64s

_LOOPS = frozenset({"While", "StatelessWhile"})
# In graphs of TensorFlow 1 a loop is a frame, of which this node is the one condition.
_CONDITION = "LoopCond"
_NEVER = int(np.iinfo(np.int64).max)


def graph_loop(found: SampledWork, *, tiny_ns: float) -> GraphLoop | Missing:
    """Return the dearest loop of the graph by the time in which no op runs that is not tiny.

    It counts from the first op of the loop to the one that takes what it made, else to the end of
    its last: TensorFlow traces no op that it has found to be cheap, and of most turns none is seen.
    A loop whose turns take input is one over steps, as that of Keras' steps_per_execution.
    """
    if not found.has_graph:
        return Missing("the recording has no graph of these steps")
    takes_input = np.array(
        [node.op.startswith(GET_NEXT) for node in found.graph.nodes], dtype=np.bool_
    )
    names = (name for name in _names(found) if not (takes_input & _inside(found, name)).any())
    loops = [_loop(found, name, tiny_ns) for name in sorted(names)]
    return max(loops, key=lambda loop: loop.small_ns, default=GraphLoop("", 0.0, 0.0, ""))


def _names(found: SampledWork) -> set[str]:
    """Return the names of loops; their nodes are named below them."""
    names = {node.name for node in found.graph.nodes if node.op in _LOOPS}
    conditions = (node.name for node in found.graph.nodes if node.op == _CONDITION)
    return names | {name.rpartition("/")[0] for name in conditions if "/" in name}


def _loop(found: SampledWork, name: str, tiny_ns: float) -> GraphLoop:
    rows, captures = found.executions, max(len(found.captures), 1)
    works: Flags = (rows.place == Place.HOST) & ~waits_or_calls(rows) & (found.node >= 0)
    inside = works & _inside(found, name)[found.node]
    if not works.any():
        return GraphLoop(name, 0.0, 0.0, "")
    capture = np.unique(rows.capture, return_inverse=True)[1].astype(np.int64)
    first, last = _bounds(found, name, works, inside, capture)
    ends_ns: Int64s = rows.start_ns + rows.duration_ns
    start_ns, end_ns = np.maximum(rows.start_ns, first[capture]), np.minimum(ends_ns, last[capture])
    large = works & (rows.duration_ns >= tiny_ns) & (end_ns > start_ns)
    covered = busy_ns(capture[large], len(first), start_ns[large], end_ns[large])
    frame = Origins((found,)).of(name).frame
    nodes = len(found.graph.nodes)
    return GraphLoop(
        name=name,
        turns=float(np.bincount(capture[inside] * nodes + found.node[inside]).max(initial=0)),
        small_ns=max(int((last - first).sum()) - int(covered.sum()), 0) / captures,
        source="" if frame is None else f"{frame.file}:{frame.line}",
    )


def _bounds(
    found: SampledWork, name: str, works: Flags, inside: Flags, capture: Int64s
) -> tuple[Int64s, Int64s]:
    """Return when the loop was under way in each capture; where no op of it was traced, since when
    none was before the op that takes what it made."""
    rows, count = found.executions, int(capture.max()) + 1
    ends_ns: Int64s = rows.start_ns + rows.duration_ns
    first = _earliest(capture[inside], rows.start_ns[inside], count)
    last = -_earliest(capture[inside], -ends_ns[inside], count)
    later = works & _takers(found, name)[found.node] & (rows.start_ns >= last[capture])
    taken = _earliest(capture[later], rows.start_ns[later], count)
    before = works & (ends_ns <= taken[capture])
    dark = -_earliest(capture[before], -ends_ns[before], count)
    is_dark, is_taken = first == _NEVER, taken != _NEVER
    last = np.where(is_taken, taken, last)
    first = np.where(is_dark, np.where(is_taken & (dark != -_NEVER), dark, last), first)
    return first, last


def _inside(found: SampledWork, name: str) -> Flags:
    """Say of each node whether it is one of the loop."""
    known = found.insides.get(name, frozenset())
    flags = [node.name.startswith(f"{name}/") or node.name in known for node in found.graph.nodes]
    return np.array(flags, dtype=np.bool_)


def _takers(found: SampledWork, name: str) -> Flags:
    """Say of each node whether it takes what the loop made."""
    flags = [name in node.inputs.values() for node in found.graph.nodes]
    return np.array(flags, dtype=np.bool_)


def _earliest(capture: Int64s, at_ns: Int64s, count: int) -> Int64s:
    found = np.full(count, _NEVER)
    np.minimum.at(found, capture, at_ns)
    return found
