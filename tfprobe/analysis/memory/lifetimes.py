"""Estimate the live memory of a step from the sizes of outputs and the order of ops.

An output is live from the start of its op until the last op that reads it has ended; if no op reads
it, until the step ends. An op that forwards its input, such as a reshape, allocates nothing, and
reading a variable does not copy it. Work space inside ops and the reuse of buffers in place are
unknown: this is an estimate.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from tfprobe.analysis.core.collective_ops import CARRIERS
from tfprobe.analysis.core.tensor_sizes import output_bytes
from tfprobe.analysis.memory.allocator_levels import Level, Pieces
from tfprobe.analysis.ops.flops.solve import shapes_of
from tfprobe.profile.capture_tables import Place
from tfprobe.profile.graph import Node, Output, Shape, TracedLoop
from tfprobe.profile.tables import Int64s

# The output shares the buffer of the input, or of a variable.
_HANDS_ON = frozenset(
    {
        "Assert",
        "CheckNumerics",
        "Enter",
        "EnsureShape",
        "Exit",
        "ExpandDims",
        "Identity",
        "IdentityN",
        "LoopCond",
        "Merge",
        "NextIteration",
        "PreventGradient",
        "ReadVariableOp",
        "RefEnter",
        "RefIdentity",
        "Reshape",
        "Snapshot",
        "Squeeze",
        "StopGradient",
        "Switch",
        "VarHandleOp",
        "Variable",
        "VariableV2",
        "_Arg",
        "_Retval",
    }
)
# Nodes of functions that these call have executions of their own; ops that update a variable
# forward it.
_PASSES = re.compile(
    r"(?:Stateful)?PartitionedCall|(?:Stateless)?(?:While|If|Case)\Z"
    r"|(?:Resource)?(?:Sparse)?Apply|(?:Resource)?Scatter\w*(?:Update|Add|Sub)\Z|Assign"
)
# Constants are part of the program.
_KEEPS = ("Const", "HostConst")
# Ops without outputs, and handles, which others own. They may run without being in a graph.
_NOTHING = frozenset(
    {
        *("AnonymousIteratorV2", "ControlTrigger", "IteratorV2", "MutexV2", "NoOp"),
        *("_HostSend", "_Send", "_SOURCE", "_SINK"),
    }
)


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """The outputs of one capture, as pieces whose rows are those of the executions.

    `sizes` counts the executions with an output, `unknown_sizes` those whose output has an unknown
    size and is not among the pieces. `shapes` are those of all outputs.
    """

    pieces: Pieces
    sizes: int
    unknown_sizes: int
    shapes: Mapping[Output, Shape]

    def level(self) -> Level:
        """Return how many bytes are live after each output is allocated or freed."""
        started, ended = self.pieces.start_ns, self.pieces.end_ns
        at_ns = np.concatenate((started, ended))
        change = np.concatenate((self.pieces.bytes, -self.pieces.bytes))
        # What is freed at a moment is available to what is allocated then.
        order = np.lexsort((change > 0, at_ns))
        return Level(at_ns[order], np.cumsum(change[order]), is_absolute=False)

    def live_at(self, moment_ns: int) -> tuple[list[int], list[int]]:
        """Return the rows of the outputs that are live right after a moment, and their bytes."""
        live = self.pieces.live_at(moment_ns)
        return self.pieces.row[live].tolist(), self.pieces.bytes[live].tolist()


def lifetimes(traced: TracedLoop, capture: int) -> Lifetimes | None:
    """Return the lifetimes of the outputs of a capture, None if no size is known."""
    rows = traced.executions
    # A collective has a row of its own and another on the thread that carried it out.
    carried = np.array([CARRIERS in text for text in rows.strings.values], dtype=np.bool_)
    chosen = (rows.capture == capture) & (rows.place == Place.HOST) & ~carried[rows.lane]
    mine = np.flatnonzero(chosen)
    if not len(mine):
        return None
    nodes = _definitions(traced, mine)
    shapes = shapes_of(traced)
    size = _sizes(traced, mine, nodes, shapes)
    if not (size > 0).any():
        return None
    end_ns = _ends(traced, mine, nodes)
    holds = size > 0
    return Lifetimes(
        pieces=Pieces(mine[holds], rows.start_ns[mine][holds], end_ns[holds], size[holds]),
        sizes=int((size != 0).sum()),
        unknown_sizes=int((size < 0).sum()),
        shapes=shapes,
    )


def _definitions(traced: TracedLoop, mine: Int64s) -> dict[int, Node]:
    """Return what ran, by node: the optimized one where the graph optimizer replaced it."""
    rows, found = traced.executions, {}
    pairs = np.unique(np.stack((traced.node[mine], rows.op_type[mine])), axis=1)
    for number, op_type in pairs.T.tolist():
        node = traced.graph.nodes[number]
        optimized = traced.optimized.get((node.name, rows.strings[op_type]))
        found[number] = optimized if optimized is not None and optimized.inputs else node
    return found


def _sizes(
    traced: TracedLoop,
    mine: Int64s,
    nodes: Mapping[int, Node],
    shapes: Mapping[Output, Shape],
) -> Int64s:
    """Return the bytes of the outputs of each row, -1 if unknown."""
    rows = traced.executions
    # With the types and shapes of the graph: optimized nodes have neither.
    numbers: dict[str, set[int]] = {}
    for name, number in shapes:
        numbers.setdefault(name, set()).add(number)
    by_node = {
        number: _live_bytes(traced.graph.nodes[number], node, numbers, shapes)
        for number, node in nodes.items()
    }
    shaped = np.array([by_node[at] for at in traced.node[mine].tolist()], dtype=np.int64)
    if not rows.output_bytes[mine].any():
        return shaped
    return np.where(shaped == 0, 0, rows.output_bytes[mine])


def _live_bytes(
    defined: Node,
    ran: Node,
    numbers: Mapping[str, set[int]],
    shapes: Mapping[Output, Shape],
) -> int:
    """Return the bytes of the outputs of a node, -1 if any size is unknown."""
    if ran.op in _HANDS_ON or ran.op in _KEEPS or ran.op in _NOTHING or _PASSES.match(ran.op):
        return 0
    outputs = defined.output_shapes.keys() | numbers.get(defined.name, set())
    if not outputs:
        # Other nodes only wait for a node of the graph without outputs.
        return 0 if defined.inputs or defined.dtypes else -1
    sizes = [output_bytes(defined, number, shapes) for number in outputs]
    return sum(size or 0 for size in sizes) if None not in sizes else -1


def _ends(traced: TracedLoop, mine: Int64s, nodes: Mapping[int, Node]) -> Int64s:
    """Return until when the outputs of each row are live."""
    rows = traced.executions
    start_ns = rows.start_ns[mine]
    row_ends_ns = start_ns + rows.duration_ns[mine]
    ids = {node.name: number for number, node in enumerate(traced.graph.nodes)}
    order = np.lexsort((start_ns, traced.node[mine]))
    of_node = traced.node[mine][order]
    readers = _readers(nodes, ids)
    end_ns = np.full(len(mine), int(row_ends_ns.max()))
    for number in nodes:
        own = order[slice(*np.searchsorted(of_node, [number, number + 1]))]
        last_ns = row_ends_ns[own]
        is_read = False
        for reader in readers.get(number, ()):
            theirs = order[slice(*np.searchsorted(of_node, [reader, reader + 1]))]
            if len(theirs):
                is_read = True
                # In a loop, until the next run of the reader.
                at = np.searchsorted(start_ns[theirs], start_ns[own], side="left")
                next_ns = row_ends_ns[theirs[np.minimum(at, len(theirs) - 1)]]
                last_ns = np.maximum(last_ns, np.where(at < len(theirs), next_ns, last_ns))
        if is_read:
            end_ns[own] = last_ns
    return end_ns


def _readers(nodes: Mapping[int, Node], ids: Mapping[str, int]) -> dict[int, set[int]]:
    """Return which nodes read the outputs of each, also through nodes that forward them."""
    direct: dict[int, set[int]] = {}
    for number, node in nodes.items():
        for name in node.inputs.values():
            if name in ids:
                direct.setdefault(ids[name], set()).add(number)
    found: dict[int, set[int]] = {}
    for number in direct:
        found[number] = set(_through(number, direct, nodes))
    return found


def _through(
    number: int, direct: Mapping[int, set[int]], nodes: Mapping[int, Node]
) -> Iterator[int]:
    waiting, seen = [number], {number}
    while waiting:
        for reader in direct.get(waiting.pop(), ()):
            yield reader
            if nodes[reader].op in _HANDS_ON and reader not in seen:
                seen.add(reader)
                waiting.append(reader)
