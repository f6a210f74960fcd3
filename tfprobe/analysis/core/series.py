"""Follow an amount over time: mean, p95 and extremes by the time it lasted, and a short curve."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tfprobe.errors import Missing

Float64s = npt.NDArray[np.float64]
Int64s = npt.NDArray[np.int64]

# A sparkline and a chart of a page have no more points to show; documents stay small.
MOST_POINTS = 200
ONE_SAMPLE = Missing("one sample alone tells no rate")
_P95 = 0.95
# No line is drawn between samples that are so many times as far apart as they usually are.
_SILENCE_RATIO = 4


class Point(NamedTuple):
    """The mean of an amount from the point before to `at_ns` (unix ns)."""

    at_ns: int
    value: float


@dataclass(frozen=True, slots=True)
class Curve:
    """An amount over time. Mean and p95 weigh a sample by how long it held; `last` is the latest.

    `points` are at most MOST_POINTS, of equal time, without those in which nothing was sampled.
    """

    mean: float
    p95: float
    min: float
    max: float
    last: float
    points: tuple[Point, ...]


class Samples(NamedTuple):
    """What was told at some moments, in order: `values` of a counter, or of a level."""

    at_ns: Int64s
    values: Float64s


def told(at_ns: Sequence[int], values: Sequence[float | Missing]) -> Samples | Missing:
    """Return those samples that tell something, or why none does."""
    pairs = [(t, v) for t, v in zip(at_ns, values, strict=True) if not isinstance(v, Missing)]
    if not pairs:
        reasons = (value for value in values if isinstance(value, Missing))
        return next(reasons, Missing("no sample was taken"))
    at, amounts = zip(*pairs, strict=True)
    return Samples(np.array(at, dtype=np.int64), np.array(amounts, dtype=np.float64))


def level(samples: Samples | Missing) -> Curve | Missing:
    """Return the curve of what a sample tells as it is, such as memory in use."""
    if isinstance(samples, Missing):
        return samples
    # Each holds since the one before; the first, of which that is not known, as long as the next.
    held_ns = np.diff(samples.at_ns)
    first_ns = held_ns[:1] if len(held_ns) else np.ones(1, dtype=np.int64)
    return _curve(samples.at_ns, samples.values, np.maximum(np.append(first_ns, held_ns), 1))


def rate(samples: Samples | Missing, *, unit_ns: float = 1e9) -> Curve | Missing:
    """Return the curve of how fast a counter grows: by how much in `unit_ns`, a second.

    A counter that fell was begun anew; that time is left out.
    """
    if isinstance(samples, Missing):
        return samples
    passed_ns, grown = np.diff(samples.at_ns), np.diff(samples.values)
    good = (passed_ns > 0) & (grown >= 0)
    if not good.any():
        return ONE_SAMPLE
    passed_ns = passed_ns[good]
    return _curve(samples.at_ns[1:][good], grown[good] * unit_ns / passed_ns, passed_ns)


def silences(at_ns: Int64s) -> tuple[Int64s, Int64s]:
    """Return the positions of samples that a silence follows, and when (ns) each silence begins.

    Samples are taken while steps run: between two that are far apart nobody knows what was.
    """
    apart_ns = np.diff(at_ns)
    if not len(apart_ns):
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    usual_ns = max(int(np.median(apart_ns)), 1)
    last = np.flatnonzero(apart_ns > _SILENCE_RATIO * usual_ns)
    return last, at_ns[last] + usual_ns


def growth(samples: Samples | Missing) -> float | Missing:
    """Return by how much a counter grew between the first and the last sample."""
    if isinstance(samples, Missing):
        return samples
    if len(samples.at_ns) < 2:
        return ONE_SAMPLE
    return float(np.maximum(np.diff(samples.values), 0).sum())


def _curve(at_ns: Int64s, values: Float64s, held_ns: Int64s) -> Curve:
    return Curve(
        mean=float(np.average(values, weights=held_ns)),
        p95=_quantile(values, held_ns, _P95),
        min=float(values.min()),
        max=float(values.max()),
        last=float(values[-1]),
        points=_points(at_ns, values, held_ns),
    )


def _quantile(values: Float64s, held_ns: Int64s, quantile: float) -> float:
    """Return the least value below or at which the amount was for this part of the time."""
    order = np.argsort(values, kind="stable")
    held = np.cumsum(held_ns[order].astype(np.float64))
    at = int(np.searchsorted(held, quantile * held[-1]))
    return float(values[order][min(at, len(values) - 1)])


def _points(at_ns: Int64s, values: Float64s, held_ns: Int64s) -> tuple[Point, ...]:
    if len(at_ns) <= MOST_POINTS:
        return tuple(map(Point, at_ns.tolist(), values.tolist()))
    passed_ns = at_ns - at_ns[0]
    bucket = np.minimum(passed_ns * MOST_POINTS // max(int(passed_ns[-1]), 1), MOST_POINTS - 1)
    weight = np.bincount(bucket, held_ns, MOST_POINTS)
    total = np.bincount(bucket, held_ns * values, MOST_POINTS)
    ends = np.zeros(MOST_POINTS, dtype=np.int64)
    np.maximum.at(ends, bucket, at_ns)
    there = np.flatnonzero(weight)
    return tuple(map(Point, ends[there].tolist(), (total[there] / weight[there]).tolist()))
