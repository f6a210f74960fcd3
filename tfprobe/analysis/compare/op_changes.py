"""Compare the cost of op types and name scopes in the traced steps of two recordings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tfprobe.analysis.compare.matching_loops import LoopPair
from tfprobe.analysis.compare.measurements import LEAST_BLOCKS, Change, compare, sample
from tfprobe.analysis.core.names import by_layer, scopes_around
from tfprobe.analysis.ops.op_stats import sums
from tfprobe.errors import Missing
from tfprobe.profile.capture_tables import Place
from tfprobe.profile.graph import Graph, Node
from tfprobe.profile.profile import Capture, Loop, Profile
from tfprobe.profile.tables import Int64s

# More add nothing, and a table of them and of all nodes has to fit into memory.
MOST_CAPTURES = 256
# Costs below this share of a step on both sides are not compared: that would widen all intervals.
LEAST_SHARE_RATIO = 0.01
# Some versions of TensorFlow prefix the name of an op with the calls around it.
_CALLS = re.compile(r"^(?:(?:Stateful)?PartitionedCall(?:_\d+)?/)+")


@dataclass(frozen=True, slots=True)
class CostChange:
    """The mean cost of something in a traced step in A and B, in ns; None if absent.

    `change` is that of the medians, with its interval.
    """

    name: str
    before_ns: float | None
    after_ns: float | None
    change: Change | Missing

    @property
    def delta_ns(self) -> float:
        return (self.after_ns or 0.0) - (self.before_ns or 0.0)

    @property
    def is_significant(self) -> bool:
        return isinstance(self.change, Change) and self.change.is_significant


@dataclass(frozen=True, slots=True)
class OpChanges:
    """How the traced steps of a loop changed; each list has the largest change first.

    `before_ns` and `after_ns` are the time of all ops of a step together. `new` and `gone` are op
    types that only B or only A ran.
    """

    pair: LoopPair
    before_steps: int
    after_steps: int
    before_ns: float
    after_ns: float
    types: tuple[CostChange, ...]
    scopes: tuple[CostChange, ...]
    new: tuple[str, ...]
    gone: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OpCosts:
    """The time of each node in each traced step of a loop in ns, one row per step."""

    names: tuple[str, ...]
    types: tuple[str, ...]
    rows_ns: Int64s


def op_changes(before: Profile, after: Profile, pair: LoopPair) -> OpChanges | Missing:
    """Return what changed in the traced steps of a pair of loops."""
    one, other = costs_of(before, pair.before), costs_of(after, pair.after)
    sides = ((one, "A"), (other, "B"))
    lacking = [name for costs, name in sides if not len(costs.rows_ns) or not costs.rows_ns.any()]
    if lacking:
        return Missing(f"no step was traced in {' and '.join(lacking)}")
    types = (by_type(one), by_type(other))
    layers = _layers(one, other)
    scopes = (_by_scope(one, layers), _by_scope(other, layers))
    wholes = (float(one.rows_ns.sum(axis=1).mean()), float(other.rows_ns.sum(axis=1).mean()))
    return OpChanges(
        pair=pair,
        before_steps=len(one.rows_ns),
        after_steps=len(other.rows_ns),
        before_ns=wholes[0],
        after_ns=wholes[1],
        types=_changes(*types, wholes),
        scopes=_without_repeats(_changes(*scopes, wholes)),
        new=tuple(sorted(types[1].keys() - types[0].keys())),
        gone=tuple(sorted(types[0].keys() - types[1].keys())),
    )


def costs_of(profile: Profile, loop: Loop) -> OpCosts:
    """Return the time of each node in the traced steps of a loop."""
    chosen = _spread_out([capture.index for capture in usual_captures(profile, loop)])
    rows = profile.executions
    mine = np.isin(rows.capture, chosen) & ~rows.background
    mine &= (rows.place == Place.HOST) | (rows.place == Place.ACCELERATOR)
    nodes = rows.name[mine].astype(np.int64) * len(rows.strings.values) + rows.op_type[mine]
    keys, node = np.unique(nodes, return_inverse=True)
    step = np.searchsorted(chosen, rows.capture[mine])
    count = len(chosen) * len(keys)
    group = np.full(len(rows), count, dtype=np.int64)
    group[mine] = step * len(keys) + node
    names, types = np.divmod(keys, len(rows.strings.values))
    return OpCosts(
        names=tuple(rows.strings[int(name)] for name in names),
        types=tuple(rows.strings[int(op_type)] for op_type in types),
        rows_ns=sums(rows, group, count).time_ns.reshape(len(chosen), len(keys)),
    )


def usual_captures(profile: Profile, loop: Loop) -> list[Capture]:
    """Return the traced steps of a loop in order, without the first if there is another."""
    mine = [
        capture
        for capture in profile.captures
        if (capture.process, capture.loop) == (loop.process, loop.index)
    ]
    mine.sort(key=lambda capture: capture.step)
    return [capture for capture in mine if capture.step > 0] or mine


def _spread_out(captures: Sequence[int]) -> Int64s:
    """Return the captures, or if there are many, a sample spread from first to last."""
    every = np.array(sorted(captures), dtype=np.int64)
    at = np.unique(np.linspace(0, len(every) - 1, min(len(every), MOST_CAPTURES)).astype(np.int64))
    chosen: Int64s = every[at]
    return chosen


def by_type(costs: OpCosts) -> dict[str, Int64s]:
    """Return the time of each op type in each traced step."""
    return _summed(costs, ((name,) for name in costs.types))


def _by_scope(costs: OpCosts, layers: Mapping[str, str]) -> dict[str, Int64s]:
    """Return the time of each scope in each step; gradients are below their layer."""
    return _summed(costs, (scopes_around(layers[name])[::-1] for name in costs.names))


def _layers(before: OpCosts, after: OpCosts) -> dict[str, str]:
    """Return the scope of each node by its layer, found among the nodes of both sides.

    A layer is recognized by its forward ops, of which a single step may lack one.
    """
    types = dict(zip((*before.names, *after.names), (*before.types, *after.types), strict=True))
    names = [_CALLS.sub("", name) for name in types]
    nodes = tuple(Node(name, op) for name, op in zip(names, types.values(), strict=True))
    placed = by_layer(Graph(nodes)).nodes
    return {name: node.name for name, node in zip(types, placed, strict=True)}


def _summed(costs: OpCosts, keys: Iterable[Iterable[str]]) -> dict[str, Int64s]:
    """Return the ns of each step by key, of which a node can have several."""
    members: dict[str, list[int]] = {}
    for at, of_node in enumerate(keys):
        for key in of_node:
            members.setdefault(key, []).append(at)
    return {key: costs.rows_ns[:, nodes].sum(axis=1) for key, nodes in members.items()}


def _changes(
    before: Mapping[str, Int64s], after: Mapping[str, Int64s], wholes: tuple[float, float]
) -> tuple[CostChange, ...]:
    """Return the changes of what is large enough to compare, the largest first."""
    names = [
        name
        for name in sorted(before.keys() | after.keys())
        if _share(before.get(name), wholes[0]) >= LEAST_SHARE_RATIO
        or _share(after.get(name), wholes[1]) >= LEAST_SHARE_RATIO
    ]
    found = [
        _change(name, before.get(name), after.get(name), comparisons=len(names)) for name in names
    ]
    return tuple(sorted(found, key=lambda cost: (not cost.is_significant, -abs(cost.delta_ns))))


def _share(times_ns: Int64s | None, whole_ns: float) -> float:
    return 0.0 if times_ns is None or not whole_ns else float(times_ns.mean()) / whole_ns


def _change(
    name: str, before: Int64s | None, after: Int64s | None, *, comparisons: int
) -> CostChange:
    change: Change | Missing = Missing("new" if before is None else "gone")
    if before is not None and after is not None:
        change = too_few(len(before), len(after)) or compare(
            sample(before, block_size=1), sample(after, block_size=1), comparisons=comparisons
        )
    return CostChange(
        name=name,
        before_ns=None if before is None else float(before.mean()),
        after_ns=None if after is None else float(after.mean()),
        change=change,
    )


def too_few(before: int, after: int) -> Missing | None:
    """Return a reason if too few steps were traced to compare."""
    if min(before, after) >= LEAST_BLOCKS:
        return None
    return Missing("too few samples to decide")


def _without_repeats(scopes: Sequence[CostChange]) -> tuple[CostChange, ...]:
    """Leave out a scope whose change is almost entirely that of one scope inside it."""
    return tuple(scope for scope in scopes if not _is_repeated(scope, scopes))


def _is_repeated(scope: CostChange, scopes: Sequence[CostChange]) -> bool:
    inner = [other for other in scopes if other.name.startswith(f"{scope.name}/")]
    return any(
        part.delta_ns * scope.delta_ns > 0 and abs(part.delta_ns) >= 0.8 * abs(scope.delta_ns)
        for part in inner
        if part.is_significant == scope.is_significant
    )
