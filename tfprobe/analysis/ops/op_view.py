"""The op view: the nodes of a graph grouped by op, in order, each with the sum of the rest.

tfprof calls the sum over an entry and all after it "total": in a list by descending cost, it is
what would remain if everything before it were free.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from tfprobe.analysis.core.names import Patterns, compile_patterns
from tfprobe.analysis.ops.cost_tree import ACCESSED, METRICS, ViewOptions
from tfprobe.analysis.ops.op_stats import AT, Costs, column, nothing, value
from tfprobe.analysis.ops.scope_view import types_of
from tfprobe.profile.capture_tables import Place
from tfprobe.profile.graph import Graph, Node, Placed, TracedLoop
from tfprobe.profile.tables import Int64s


@dataclass(frozen=True, slots=True)
class Signature:
    """The input shapes of some nodes of an op, and the cost of these nodes together."""

    shapes: tuple[tuple[int, tuple[int, ...]], ...]
    runs: int
    members: int
    time_ns: int


@dataclass(frozen=True, slots=True, eq=False)
class OpEntry:
    """An op and its accounted nodes; `own` is their cost, `rest` includes all entries after it."""

    name: str
    members: tuple[int, ...]
    own: Int64s
    rest: Int64s


@dataclass(frozen=True, slots=True, eq=False)
class OpView:
    """The entries that are shown, and the total that shares refer to."""

    entries: tuple[OpEntry, ...]
    total: Int64s


def as_executed(traced: TracedLoop) -> TracedLoop:
    """Return traced steps whose nodes have the op that ran, if the graph has another.

    The graph optimizer fuses a Conv2D, a BiasAdd and a Relu into one op with the name of the last,
    for which a library can have its own kernel: `_FusedConv2D`, `_MklNativeFusedConv2D`. The
    report, the findings and the tables, which read no graph, show what ran; so does everything
    else. The op of the graph stays among the types of the node.
    """
    rows = traced.executions
    ran: dict[int, int] = {}
    for place in (Place.HOST, Place.ACCELERATOR):
        is_there = rows.place == place
        # One number for node and op: pairs take ten times as long to sort.
        count = len(rows.strings.values)
        pairs = traced.node[is_there].astype(np.int64) * count + rows.op_type[is_there]
        found, runs = np.unique(pairs, return_counts=True)
        ordered = found[np.argsort(runs, kind="stable")]
        most = dict(np.stack(np.divmod(ordered, count), axis=1).tolist())
        ran = {**most, **ran}
    return replace(
        traced,
        graph=Graph(
            tuple(
                _named(node, rows.strings[ran[at]] if at in ran else "")
                for at, node in enumerate(traced.graph.nodes)
            )
        ),
    )


def _named(node: Node, op_type: str) -> Node:
    if not op_type or op_type == node.op:
        return node
    types = node.types | {node.op, op_type}
    return replace(node, op=op_type, in_graph=node.op, types=types)


def in_graph(nodes: Iterable[Node]) -> list[str]:
    """Return the ops in the graph of nodes that ran as another op."""
    return sorted({node.in_graph for node in nodes if node.in_graph})


def op(profile: Placed, costs: Costs, choice: ViewOptions) -> OpView:
    """Return the ops that `choice` shows, in its order."""
    entries = [entry for entry in _entries(profile, costs, choice) if entry.members]
    entries.sort(key=lambda entry: entry.name)
    if choice.order_by in (*METRICS, ACCESSED):
        entries.sort(key=lambda entry: -_rank(entry, choice.order_by))
    entries, total = _with_rests(entries)
    shown = _shown(entries[_first(entries, choice) :], choice)
    if choice.account_displayed_op_only:
        shown, total = _with_rests(shown)
    return OpView(tuple(shown), total)


def signatures(profile: Placed, costs: Costs, members: tuple[int, ...]) -> list[Signature]:
    """Return the input shapes of these nodes, in the order of the nodes."""
    ids = {node.name: at for at, node in enumerate(profile.graph.nodes)}
    by_shapes: dict[tuple[tuple[int, tuple[int, ...]], ...], list[int]] = {}
    for at in members:
        by_shapes.setdefault(input_shapes(profile, ids, at), []).append(at)
    return [
        Signature(
            shapes=shapes,
            runs=int(sum(costs.rows[at][AT["runs"]] for at in group)),
            members=len(group),
            time_ns=int(sum(costs.rows[at][AT["time_ns"]] for at in group)),
        )
        for shapes, group in by_shapes.items()
    ]


def input_shapes(
    profile: Placed, ids: dict[str, int], at: int
) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """Return the shape of each input of a node, () if unknown."""
    nodes = profile.graph.nodes
    call = nodes[at].call
    if call is not None:
        return tuple(enumerate(call.sizes))
    sources = nodes[at].sources if profile.graph.minds_outputs else {}
    shapes = []
    for index, producer in sorted(nodes[at].inputs.items()):
        known = nodes[ids[producer]].output_shapes if producer in ids else {}
        shapes.append((index, known.get(sources.get(index, 0), ())))
    return tuple(shapes)


def _entries(profile: Placed, costs: Costs, choice: ViewOptions) -> list[OpEntry]:
    patterns = compile_patterns(choice.account_type_regexes)
    by_op: dict[str, list[int]] = {}
    for at, node in enumerate(profile.graph.nodes):
        by_op.setdefault(node.op, []).append(at)
    entries = []
    for name, nodes in by_op.items():
        accounted = _accounted(profile, nodes, patterns)
        once = tuple(dict.fromkeys(accounted))
        own = nothing()
        for at in accounted if choice.as_engine else once:
            own += costs.rows[at]
        entries.append(OpEntry(name, once, own, nothing()))
    return entries


def _accounted(profile: Placed, nodes: list[int], patterns: Patterns) -> list[int]:
    """Return the accounted nodes, each once for every pattern that matches it."""
    if patterns.takes_all:
        return nodes
    return [
        at
        for pattern in patterns.compiled
        for at in nodes
        if any(pattern.fullmatch(text) for text in types_of(profile, at))
    ]


def _rank(entry: OpEntry, order_by: str) -> int:
    return len(entry.members) if order_by == "occurrence" else int(entry.own[column(order_by)])


def _with_rests(entries: list[OpEntry]) -> tuple[list[OpEntry], Int64s]:
    rest = nothing()
    found = []
    for entry in reversed(entries):
        rest = rest + entry.own
        found.append(replace(entry, rest=rest))
    return found[::-1], rest


def _first(entries: list[OpEntry], choice: ViewOptions) -> int:
    """Return the index where the list starts: its length if no entry matches."""
    # In the engine, no patterns mean no restriction here; in the other views nothing starts then.
    if choice.as_engine and not choice.start_name_regexes:
        return 0
    starts = compile_patterns(choice.start_name_regexes)
    matching = (at for at, entry in enumerate(entries) if starts.any_matches(entry.name))
    return next(matching, len(entries))


def _shown(entries: list[OpEntry], choice: ViewOptions) -> list[OpEntry]:
    shows = compile_patterns(choice.show_name_regexes)
    hides = compile_patterns(choice.hide_name_regexes)
    trims = compile_patterns(choice.trim_name_regexes)
    shown = []
    # The engine counts the depth from 0, so it shows one entry more than requested.
    most = choice.max_depth + (1 if choice.as_engine else 0)
    for depth, entry in enumerate(entries):
        if depth >= most or trims.any_matches(entry.name):
            break
        if (
            _is_large_enough(entry, choice)
            and shows.any_matches(entry.name)
            and not hides.any_matches(entry.name)
        ):
            shown.append(entry)
    return shown


def _is_large_enough(entry: OpEntry, choice: ViewOptions) -> bool:
    row = entry.rest if choice.as_engine else entry.own
    return all(
        (len(entry.members) if metric == "occurrence" else value(row, metric)) >= least
        for metric, least in choice.least.items()
    )
