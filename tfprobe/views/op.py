"""The nodes of a graph by op: one entry for each, in order, with what follows it in the list.

tfprof calls the sum over an entry and all that come after it "total": of a list by falling cost, it
is what would be left after everything before had been made free.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tfprobe.model.records import GraphProfile
from tfprobe.views.choice import Choice
from tfprobe.views.costs import AT, Costs, Int64s, nothing
from tfprobe.views.patterns import Patterns, compile_patterns
from tfprobe.views.scope import types_of


@dataclass(frozen=True, slots=True)
class Signature:
    """The shapes of the inputs of some nodes of an op, and what those nodes cost together."""

    shapes: tuple[tuple[int, tuple[int, ...]], ...]
    runs: int
    members: int
    micros: int


@dataclass(frozen=True, slots=True, eq=False)
class OpEntry:
    """An op and the nodes that count for it; `own` is what they cost, `rest` with all after."""

    name: str
    members: tuple[int, ...]
    own: Int64s
    rest: Int64s


@dataclass(frozen=True, slots=True, eq=False)
class OpView:
    """The entries that are shown, and the costs their shares are of."""

    entries: tuple[OpEntry, ...]
    total: Int64s


def op(profile: GraphProfile, costs: Costs, choice: Choice) -> OpView:
    """Return the ops that `choice` shows, in its order."""
    entries = [each for each in _entries(profile, costs, choice) if each.members]
    entries.sort(key=lambda entry: entry.name)
    if choice.order_by in ("occurrence", *AT):
        entries.sort(key=lambda entry: -_rank(entry, choice.order_by))
    entries, total = _with_rests(entries)
    starts = compile_patterns(choice.start_name_regexes)
    first = next((at for at, each in enumerate(entries) if starts.any_matches(each.name)), None)
    shown = _shown(entries[first:], choice) if first is not None else []
    if choice.account_displayed_op_only:
        shown, total = _with_rests(shown)
    return OpView(tuple(shown), total)


def signatures(profile: GraphProfile, costs: Costs, members: tuple[int, ...]) -> list[Signature]:
    """Return the input shapes of these nodes, those that ran most first."""
    ids = {node.name: at for at, node in enumerate(profile.graph.nodes)}
    by_shapes: dict[tuple[tuple[int, tuple[int, ...]], ...], list[int]] = {}
    for at in members:
        by_shapes.setdefault(input_shapes(profile, ids, at), []).append(at)
    return [
        Signature(
            shapes=shapes,
            runs=int(sum(costs.rows[at][AT["runs"]] for at in group)),
            members=len(group),
            micros=int(sum(costs.rows[at][AT["micros"]] for at in group)),
        )
        for shapes, group in by_shapes.items()
    ]


def input_shapes(
    profile: GraphProfile, ids: dict[str, int], at: int
) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """Return the shape of each input of a node, () where it is unknown.

    As TensorFlow 2's engine, which takes every input to be its producer's first output.
    """
    nodes = profile.graph.nodes
    shapes = []
    for index, producer in sorted(nodes[at].inputs.items()):
        known = nodes[ids[producer]].output_shapes if producer in ids else {}
        shapes.append((index, known.get(0, ())))
    return tuple(shapes)


def _entries(profile: GraphProfile, costs: Costs, choice: Choice) -> list[OpEntry]:
    patterns = compile_patterns(choice.account_type_regexes)
    by_op: dict[str, list[int]] = {}
    for at, node in enumerate(profile.graph.nodes):
        by_op.setdefault(node.op, []).append(at)
    entries = []
    for name, nodes in by_op.items():
        accounted = _accounted(profile, nodes, patterns)
        own = nothing()
        for at in accounted:
            own += costs.rows[at]
        entries.append(OpEntry(name, tuple(dict.fromkeys(accounted)), own, nothing()))
    return entries


def _accounted(profile: GraphProfile, nodes: list[int], patterns: Patterns) -> list[int]:
    """Return the nodes that count, one as often as patterns match it."""
    if patterns.takes_all:
        return nodes
    return [
        at
        for each in patterns.compiled
        for at in nodes
        if any(each.fullmatch(text) for text in types_of(profile, at))
    ]


def _rank(entry: OpEntry, order_by: str) -> int:
    return len(entry.members) if order_by == "occurrence" else int(entry.own[AT[order_by]])


def _with_rests(entries: list[OpEntry]) -> tuple[list[OpEntry], Int64s]:
    rest = nothing()
    found = []
    for entry in reversed(entries):
        rest = rest + entry.own
        found.append(replace(entry, rest=rest))
    return found[::-1], rest


def _shown(entries: list[OpEntry], choice: Choice) -> list[OpEntry]:
    shows = compile_patterns(choice.show_name_regexes)
    hides = compile_patterns(choice.hide_name_regexes)
    trims = compile_patterns(choice.trim_name_regexes)
    shown = []
    for depth, entry in enumerate(entries):
        if depth > choice.max_depth or trims.any_matches(entry.name):
            break
        if (
            _is_dear_enough(entry, choice)
            and shows.any_matches(entry.name)
            and not hides.any_matches(entry.name)
        ):
            shown.append(entry)
    return shown


def _is_dear_enough(entry: OpEntry, choice: Choice) -> bool:
    return all(
        (len(entry.members) if metric == "occurrence" else entry.rest[AT[metric]]) >= least
        for metric, least in choice.least.items()
    )
