"""Estimate what a step holds from the sizes of outputs and the order of ops.

An output is held from the start of its op until the last op that reads it has ended; what nobody
reads, until the step ends. An op that hands its input on, such as a reshape, holds nothing itself,
and reading a variable copies none. Of work space inside ops nothing is known, and that buffers are
used again in place neither: this is an estimate.
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

# The output is a buffer of the input's, or of a variable's.
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
# The nodes of the functions that these run are there by themselves.
# What changes a variable gives that variable on.
_PASSES = re.compile(
    r"(?:Stateful)?PartitionedCall|(?:Stateless)?(?:While|If|Case)\Z"
    r"|(?:Resource)?(?:Sparse)?Apply|(?:Resource)?Scatter\w*(?:Update|Add|Sub)\Z|Assign"
)
# Constants are part of the program.
_KEEPS = ("Const", "HostConst")
# Ops without outputs, and handles, which others own; kernels know these nodes by no graph.
_NOTHING = frozenset(
    {
        *("AnonymousIteratorV2", "ControlTrigger", "IteratorV2", "MutexV2", "NoOp"),
        *("_HostSend", "_Send", "_SOURCE", "_SINK"),
    }
)


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """Outputs of one capture, as pieces whose rows are those of the executions.

    `sizes` counts the executions that made something, `unknown_sizes` those of them that made
    something of unknown size, which is no piece. `shapes` are those of all outputs.
    """

    pieces: Pieces
    sizes: int
    unknown_sizes: int
    shapes: Mapping[Output, Shape]

    def level(self) -> Level:
        """Return how much is held, after each output is made or given back."""
        made, ended = self.pieces.start_ns, self.pieces.end_ns
        at_ns = np.concatenate((made, ended))
        change = np.concatenate((self.pieces.bytes, -self.pieces.bytes))
        # What is given back at a moment is there for what is made then.
        order = np.lexsort((change > 0, at_ns))
        return Level(at_ns[order], np.cumsum(change[order]), is_absolute=False)

    def live_at(self, moment_ns: int) -> tuple[list[int], list[int]]:
        """Return the rows of the outputs that are held right after a moment, and their bytes."""
        live = self.pieces.live_at(moment_ns)
        return self.pieces.row[live].tolist(), self.pieces.bytes[live].tolist()


def lifetimes(sampled: TracedLoop, capture: int) -> Lifetimes | None:
    """Return what the outputs of a capture hold, None where no size of any is known."""
    rows = sampled.executions
    # A collective has a row of its own and one of the thread that carried it out.
    carried = np.array([CARRIERS in text for text in rows.strings.values], dtype=np.bool_)
    chosen = (rows.capture == capture) & (rows.place == Place.HOST) & ~carried[rows.lane]
    mine = np.flatnonzero(chosen)
    if not len(mine):
        return None
    nodes = _definitions(sampled, mine)
    shapes = shapes_of(sampled)
    size = _sizes(sampled, mine, nodes, shapes)
    if not (size > 0).any():
        return None
    end_ns = _ends(sampled, mine, nodes)
    holds = size > 0
    return Lifetimes(
        pieces=Pieces(mine[holds], rows.start_ns[mine][holds], end_ns[holds], size[holds]),
        sizes=int((size != 0).sum()),
        unknown_sizes=int((size < 0).sum()),
        shapes=shapes,
    )


def _definitions(sampled: TracedLoop, mine: Int64s) -> dict[int, Node]:
    """Return what ran, by node: as the graph optimizer made it, where it did."""
    rows, found = sampled.executions, {}
    pairs = np.unique(np.stack((sampled.node[mine], rows.op_type[mine])), axis=1)
    for number, op_type in pairs.T.tolist():
        node = sampled.graph.nodes[number]
        made = sampled.optimized.get((node.name, rows.strings[op_type]))
        found[number] = made if made is not None and made.inputs else node
    return found


def _sizes(
    sampled: TracedLoop,
    mine: Int64s,
    nodes: Mapping[int, Node],
    shapes: Mapping[Output, Shape],
) -> Int64s:
    """Return the bytes of the outputs of each row, -1 where they are not known."""
    rows = sampled.executions
    # With types and shapes as in the graph: what the optimizer made tells of neither.
    numbers: dict[str, set[int]] = {}
    for name, number in shapes:
        numbers.setdefault(name, set()).add(number)
    by_node = {
        number: _held(sampled.graph.nodes[number], node, numbers, shapes)
        for number, node in nodes.items()
    }
    shaped = np.array([by_node[at] for at in sampled.node[mine].tolist()], dtype=np.int64)
    if not rows.output_bytes[mine].any():
        return shaped
    return np.where(shaped == 0, 0, rows.output_bytes[mine])


def _held(
    defined: Node,
    ran: Node,
    numbers: Mapping[str, set[int]],
    shapes: Mapping[Output, Shape],
) -> int:
    """Return what the outputs of a node hold, -1 where the size of any is not known."""
    if ran.op in _HANDS_ON or ran.op in _KEEPS or ran.op in _NOTHING or _PASSES.match(ran.op):
        return 0
    outputs = defined.output_shapes.keys() | numbers.get(defined.name, set())
    if not outputs:
        # A node of the graph without outputs is one that only others wait for.
        return 0 if defined.inputs or defined.dtypes else -1
    sizes = [output_bytes(defined, number, shapes) for number in outputs]
    return sum(size or 0 for size in sizes) if None not in sizes else -1


def _ends(sampled: TracedLoop, mine: Int64s, nodes: Mapping[int, Node]) -> Int64s:
    """Return until when the outputs of each row are held."""
    rows = sampled.executions
    start_ns = rows.start_ns[mine]
    row_ends_ns = start_ns + rows.duration_ns[mine]
    ids = {node.name: number for number, node in enumerate(sampled.graph.nodes)}
    order = np.lexsort((start_ns, sampled.node[mine]))
    of_node = sampled.node[mine][order]
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
                # In a loop, the run of the reader that comes next.
                at = np.searchsorted(start_ns[theirs], start_ns[own], side="left")
                next_ns = row_ends_ns[theirs[np.minimum(at, len(theirs) - 1)]]
                last_ns = np.maximum(last_ns, np.where(at < len(theirs), next_ns, last_ns))
        if is_read:
            end_ns[own] = last_ns
    return end_ns


def _readers(nodes: Mapping[int, Node], ids: Mapping[str, int]) -> dict[int, set[int]]:
    """Return which nodes read the outputs of each, through those that only hand them on."""
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
