"""What a fix wins: arms of a trial compared by the time of a unit, with an interval and a verdict.

A trial runs the same job several times: the *base* without a fix, at least twice, and an *arm* with
each fix. The *unit* is one step of progress that all arms count alike. Gains are ratios: +0.8 means
that a unit takes 80 % less time.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt

from tfprobe.analysis.compare.several_runs import Observation, RunsChange, compare_runs
from tfprobe.errors import Missing

# With fewer units after the warm-up, no answer is given.
LEAST_UNITS = 16
# Of one process: how far they are apart says how sure its mean is.
BLOCKS = 8
# Steps that take this many times the usual time, in the first third alone, are warming up.
_SLOW_RATIO = 3.0

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class Verdict(Enum):
    """The answer of a trial about one fix. The value is its word in documents and texts."""

    WON = "won"
    LOST = "lost"
    UNKNOWN = "cannot be told"
    NOT_APPLIED = "not applied"


@dataclass(frozen=True, slots=True)
class Marks:
    """How far one process was, and when: arrays of one length, all ascending.

    `cpu_ns` is CPU time of the process, `units` how many were done.
    """

    mono_ns: Ints
    cpu_ns: Ints
    units: Ints

    def between(self, first_ns: int, last_ns: int) -> Marks:
        """Return the marks from `first_ns` to `last_ns` of the monotonic clock, inclusive."""
        kept = (self.mono_ns >= first_ns) & (self.mono_ns <= last_ns)
        return Marks(self.mono_ns[kept], self.cpu_ns[kept], self.units[kept])

    def without_warm_up(self, warm_units: int) -> Marks:
        """Return the marks after the first `warm_units`, and after what was still slow behind them.

        A job may compile again soon after its start, for a last batch or a first evaluation.
        """
        at = int(np.searchsorted(self.units, warm_units))
        warm = Marks(self.mono_ns[at:], self.cpu_ns[at:], self.units[at:])
        if len(warm.units) < 2 * LEAST_UNITS:
            return warm
        unit_ns = np.diff(warm.mono_ns) / np.maximum(np.diff(warm.units), 1)
        slow = np.flatnonzero(unit_ns > _SLOW_RATIO * np.median(unit_ns))
        third = len(unit_ns) // 3
        if len(slow) == 0 or int(slow[-1]) >= third:
            return warm  # what comes again and again is no warm-up
        at = int(slow[-1]) + 1
        return Marks(warm.mono_ns[at:], warm.cpu_ns[at:], warm.units[at:])


@dataclass(frozen=True, slots=True)
class ProcessTimes:
    """The measured part of one process in blocks of equal time: arrays of shape (blocks,).

    `wall_ns` and `cpu_ns` are of the whole block, `units` were done in it.
    """

    wall_ns: Floats
    cpu_ns: Floats
    units: Floats

    @property
    def unit_ns(self) -> float:
        """The mean wall time of a unit, in ns: throughput."""
        return float(self.wall_ns.sum() / self.units.sum())

    @property
    def cpu_unit_ns(self) -> float:
        """The mean CPU time of a unit, in ns."""
        return float(self.cpu_ns.sum() / self.units.sum())


def process_times(marks: Marks) -> ProcessTimes | Missing:
    """Divide the marks after the warm-up into blocks."""
    done = int(marks.units[-1] - marks.units[0]) if len(marks.units) else 0
    if done < LEAST_UNITS:
        return Missing(f"only {done} units after the warm-up; {LEAST_UNITS} are needed")
    edges = np.linspace(marks.mono_ns[0], marks.mono_ns[-1], min(BLOCKS, len(marks.units) - 1) + 1)
    # A block ends at the mark before its edge, so that no unit is divided.
    at = np.unique(np.searchsorted(marks.mono_ns, edges, side="right") - 1)
    wall, cpu, units = (
        np.diff(column[at]).astype(np.float64)
        for column in (marks.mono_ns, marks.cpu_ns, marks.units)
    )
    return ProcessTimes(wall, cpu, units)


@dataclass(frozen=True, slots=True)
class Interval:
    """A gain with its confidence interval, as ratios."""

    ratio: float
    low_ratio: float
    high_ratio: float

    def clears(self, error_ratio: float) -> int:
        """Return 1 if all of it lies above the error, -1 if below minus the error, else 0."""
        if self.low_ratio > error_ratio:
            return 1
        return -1 if self.high_ratio < -error_ratio else 0


@dataclass(frozen=True, slots=True)
class TrialGain:
    """What a fix wins. `error_ratio` is the largest difference seen between two bases.

    `least_ratio` is the least gain that would have been told. `cpu_tells`: throughput does not tell
    what a fix does, CPU time does, and the former points the same way.
    """

    verdict: Verdict
    wall: Interval
    cpu: Interval
    error_ratio: float
    least_ratio: float
    why: str = ""
    cpu_tells: bool = False


def base_error(bases: Sequence[ProcessTimes]) -> float:
    """Return the largest gain that seems to lie between two neighbouring bases: the A/A error."""
    return _error([base.unit_ns for base in bases])


def _error(times_ns: Sequence[float]) -> float:
    pairs = itertools.pairwise(max(time_ns, 1.0) for time_ns in times_ns)
    return max((1 - min(pair) / max(pair) for pair in pairs), default=0.0)


def gain(
    bases: Sequence[ProcessTimes],
    arm: Sequence[ProcessTimes],
    *,
    comparisons: int = 1,
    is_busy: bool = False,
    is_cpu_comparable: bool = True,
) -> TrialGain:
    """Compare the processes of an arm with those of the base: Welch's t, as for runs of two sides.

    Throughput decides. On a busy machine, wall and CPU time that contradict each other decide
    nothing. `comparisons` is how many gains are judged together. `is_cpu_comparable`: the fix moves
    no work to where its CPU time is not counted.

    Raises ValueError with fewer than two bases, or without a process of the arm.
    """
    if len(bases) < 2 or not arm:
        raise ValueError("a gain needs two bases and one process of the arm")
    wall, cpu = (
        _interval(
            [_observation(process, name) for process in bases],
            [_observation(process, name) for process in arm],
            comparisons,
        )
        for name in ("wall_ns", "cpu_ns")
    )
    error = base_error(bases)
    least = (wall.high_ratio - wall.low_ratio) / 2 + error
    verdict, why = _judged(wall, cpu, error, is_busy=is_busy)
    cpu_sign = cpu.clears(_error([base.cpu_unit_ns for base in bases]))
    cpu_tells = is_cpu_comparable and verdict is Verdict.UNKNOWN and cpu_sign * wall.ratio > 0
    return TrialGain(verdict, wall, cpu, error, least, why, cpu_tells)


def _observation(process: ProcessTimes, name: str) -> Observation:
    """Return the mean time of a unit in a process, and by how much its blocks scatter."""
    time_ns: Floats = getattr(process, name)
    units = np.maximum(process.units, 1)
    blocks = np.log(np.maximum(time_ns, 1.0) / units)
    error = float(blocks.std(ddof=1)) / math.sqrt(len(blocks)) if len(blocks) > 1 else 0.0
    # CPU time may be 0: then there is nothing to save.
    return Observation(max(float(time_ns.sum()), 1.0) / float(process.units.sum()), error)


def _interval(
    bases: Sequence[Observation], arm: Sequence[Observation], comparisons: int
) -> Interval:
    change = compare_runs(bases, arm, comparisons=comparisons)
    assert isinstance(change, RunsChange)  # two bases and one process are enough
    return Interval(-change.ratio, -change.high_ratio, -change.low_ratio)


def _judged(wall: Interval, cpu: Interval, error: float, *, is_busy: bool) -> tuple[Verdict, str]:
    sign, witness = wall.clears(error), cpu.clears(error)
    if sign == 0:
        return Verdict.UNKNOWN, "the interval does not clear the difference between two bases"
    if is_busy and sign * witness < 0:
        return Verdict.UNKNOWN, "wall and CPU time contradict each other on a busy machine"
    return (Verdict.WON if sign > 0 else Verdict.LOST), ""


class SameResults(Enum):
    """Whether a fix left the results of the job as they were."""

    IDENTICAL = "identical"
    ROUNDING = "rounding"
    DIFFERENT = "different"


# Relative distance of weights that sums in another order explain.
ROUNDING_RATIO = 1e-5


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights of a job after the same unit: a digest for each array, in an order of creation.

    `values` are all arrays as one, if they were small enough to be kept.
    """

    unit: int
    digests: tuple[str, ...]
    values: Floats | None = None


@dataclass(frozen=True, slots=True)
class Losses:
    """The losses of the first steps of a job, by the number of units done."""

    of_unit: Mapping[int, float]


@dataclass(frozen=True, slots=True)
class ResultsComparison:
    """How far results are apart, 0.0 if identical.

    Of weights it is their relative L2 distance, of losses the largest relative difference.
    """

    same: SameResults
    distance_ratio: float


def compare_results(
    bases: Sequence[Weights | Missing], arm: Sequence[Weights | Missing]
) -> ResultsComparison | Missing:
    """Compare the weights of an arm with the base's.

    Nothing can be said if two bases differ, or if one side has no weights.
    """
    for weights in (*bases, *arm):
        if isinstance(weights, Missing):
            return weights
    known = [weights for weights in bases if isinstance(weights, Weights)]
    fixed = [weights for weights in arm if isinstance(weights, Weights)]
    if not known or not fixed:
        return Missing("no weights were written")
    if any(weights.digests != known[0].digests for weights in known):
        return Missing("two runs without a fix differ already")
    if {weights.unit for weights in (*known, *fixed)} != {known[0].unit}:
        return Missing("weights were written after different units")
    if all(weights.digests == known[0].digests for weights in fixed):
        return ResultsComparison(SameResults.IDENTICAL, 0.0)
    if {len(weights.digests) for weights in (*known, *fixed)} != {len(known[0].digests)}:
        return Missing("the fix leaves another number of arrays")
    distances = [_distance(known[0], weights) for weights in fixed]
    if any(distance is None for distance in distances):
        return Missing("the weights are not of one shape, or too large to be kept")
    furthest = max(distance for distance in distances if distance is not None)
    return _classified(furthest)


def compare_losses(
    bases: Sequence[Losses | Missing], arm: Sequence[Losses | Missing]
) -> ResultsComparison | Missing:
    """Compare the losses of an arm with the base's at the steps that all of them have.

    Nothing can be said if two bases differ, or if one side has no losses. NaN is equal to NaN.
    """
    for losses in (*bases, *arm):
        if isinstance(losses, Missing):
            return losses
    known, fixed = (
        [one.of_unit for one in side if isinstance(one, Losses)] for side in (bases, arm)
    )
    if not known or not fixed:
        return Missing("no losses were written")
    units = sorted(set.intersection(*(set(losses) for losses in (*known, *fixed))))
    if not units:
        return Missing("losses were written after different units")
    first = np.array([known[0][unit] for unit in units])
    others = [np.array([losses[unit] for unit in units]) for losses in known]
    if any(not np.array_equal(first, other, equal_nan=True) for other in others):
        return Missing("two runs without a fix differ already")
    distances = (_furthest(first, np.array([each[unit] for unit in units])) for each in fixed)
    furthest = max(distances)
    if furthest == 0:
        return ResultsComparison(SameResults.IDENTICAL, 0.0)
    return _classified(furthest)


def _furthest(base: Floats, arm: Floats) -> float:
    """Return the largest relative difference at a step; infinite if only one is a finite number."""
    same = (base == arm) | (np.isnan(base) & np.isnan(arm))
    if bool(same.all()):
        return 0.0
    apart, size = np.abs(arm - base)[~same], np.abs(base)[~same]
    ratios = apart / np.where(size > 0, size, 1.0)
    return float(np.where(np.isfinite(ratios), ratios, np.inf).max())


def _classified(distance: float) -> ResultsComparison:
    """Say what a distance is of results that are not identical."""
    is_rounding = distance < ROUNDING_RATIO
    same = SameResults.ROUNDING if is_rounding else SameResults.DIFFERENT
    return ResultsComparison(same, distance)


def _distance(one: Weights, other: Weights) -> float | None:
    if one.values is None or other.values is None or one.values.shape != other.values.shape:
        return None
    norm = float(np.linalg.norm(one.values))
    apart = float(np.linalg.norm(one.values - other.values))
    return apart / norm if norm else apart
