"""Say of how much of what ran the float operations are known, and of what they are not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tfprobe.model.sampled import SampledWork
from tfprobe.views.flops.count import FloatOps, counted_rows
from tfprobe.views.flops.table import plain

Floats = npt.NDArray[np.float64]

_AVERAGE = -1


@dataclass(frozen=True, slots=True)
class UnknownOp:
    """An op whose float operations are not known, why, and its part of the time (0..1)."""

    op: str
    reason: str
    time_ratio: float


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much is known, each 0..1: of the FLOPs, of the ops run, and of the time of ops.

    How many FLOPs are not known is an estimate: as many as known ops of the same type compute in
    the same time, or known ops of all types that compute anything. `unknown` are the ops whose
    FLOPs are not known, those with most time first.
    """

    float_ops_ratio: float
    ops_ratio: float
    time_ratio: float
    unknown: tuple[UnknownOp, ...]


def coverage(sampled: SampledWork, float_ops: FloatOps, step: int) -> Coverage:
    """Return the coverage of a sampled step; of -1, of all of them together."""
    rows = sampled.executions
    captures = [each.index for each in sampled.captures if step in (_AVERAGE, each.step)]
    in_step = np.isin(rows.capture, captures)
    count = len(sampled.graph.nodes)
    runs = np.bincount(sampled.node[in_step & counted_rows(sampled)], minlength=count)
    times_ns = np.bincount(
        sampled.node[in_step], rows.duration_ns[in_step].astype(np.float64), minlength=count
    ).astype(np.float64)
    nodes = [at for at in float_ops.unknown if runs[at]]
    whole_ns = float(times_ns.sum())
    by_op: dict[tuple[str, str], float] = {}
    for at in nodes:
        which = float_ops.unknown[at]
        by_op[which] = by_op.get(which, 0.0) + float(times_ns[at])
    unknown = [
        UnknownOp(op, reason, _ratio(time_ns, whole_ns)) for (op, reason), time_ns in by_op.items()
    ]
    unknown.sort(key=lambda each: (-each.time_ratio, each.op, each.reason))
    by_node = np.zeros(count)
    np.add.at(by_node, sampled.node[in_step], float_ops.of_rows[in_step].astype(np.float64))
    lacking = _estimated(sampled, by_node, times_ns, {at: float_ops.unknown[at][0] for at in nodes})
    return Coverage(
        float_ops_ratio=1 - _ratio(lacking, lacking + float(by_node.sum())),
        ops_ratio=1 - _ratio(float(runs[nodes].sum()), float(runs.sum())),
        time_ratio=1 - _ratio(sum(by_op.values()), whole_ns),
        unknown=tuple(unknown),
    )


def _estimated(
    sampled: SampledWork, known: Floats, times_ns: Floats, unknown: Mapping[int, str]
) -> float:
    """Return how many FLOPs the nodes with unknown ones may have, by their time.

    Without any that are known there is no rate: then all time counts alike.
    """
    computing = np.flatnonzero(known)
    rates: dict[str, list[float]] = {}
    for at in computing.tolist():
        of_type = rates.setdefault(plain(sampled.graph.nodes[at].op), [0.0, 0.0])
        of_type[0] += float(known[at])
        of_type[1] += float(times_ns[at])
    every = [float(known.sum()), float(times_ns[computing].sum())]
    found = 0.0
    for at, op in unknown.items():
        names = (plain(op), plain(sampled.graph.nodes[at].op))
        amount, time_ns = next((rates[name] for name in names if name in rates), every)
        found += float(times_ns[at]) * (_ratio(amount, time_ns) or 1.0)
    return found


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
