"""Compare several runs per side: each is one observation, so the variance between runs is known.

The test is Welch's t on logarithms, so a change is a ratio. If a side has a single run, its
variance is assumed to be that of the other side: the interval is then a prediction interval.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, variance

from tfprobe.analysis.account.account import merge_accounts
from tfprobe.analysis.account.collectives import run_accounts
from tfprobe.analysis.compare.change_cause import ChangeCause
from tfprobe.analysis.compare.comparison import Diff, LoopDiff, diff
from tfprobe.analysis.compare.measurements import (
    LEAST_CHANGE_RATIO,
    NOTHING,
    Change,
    MeasuredSample,
)
from tfprobe.analysis.compare.step_changes import times_of
from tfprobe.errors import Missing
from tfprobe.profile.profile import Loop, Profile
from tfprobe.profile.snapshots import RunLine


@dataclass(frozen=True, slots=True)
class Observation:
    """The level of a quantity in one run.

    `error` is the standard error of its logarithm within the run, 0 if unknown.
    """

    level: float
    error: float = 0.0


@dataclass(frozen=True, slots=True)
class RunsChange:
    """The change from the runs of A to those of B, with the interval of the ratio.

    `before` and `after` are geometric means. `least_ratio` is the least growth that would have been
    significant; `degrees` are the degrees of freedom of the test.
    """

    before: float
    after: float
    before_runs: tuple[float, ...]
    after_runs: tuple[float, ...]
    ratio: float
    low_ratio: float
    high_ratio: float
    least_ratio: float
    confidence: float
    degrees: float

    @property
    def is_significant(self) -> bool:
        """Return whether the interval excludes no change, and the change is worth reporting."""
        outside = self.low_ratio > 0 or self.high_ratio < 0
        return outside and abs(self.ratio) >= LEAST_CHANGE_RATIO


def observed(sample: MeasuredSample) -> Observation | Missing:
    """Return the level of a run's measurements, with its error within the run."""
    if sample.level <= NOTHING:
        return Missing("most steps have none of it")
    return Observation(sample.level, sample.scatter / math.sqrt(max(len(sample.blocks), 1)))


def compare_runs(
    before: Sequence[Observation], after: Sequence[Observation], *, comparisons: int
) -> RunsChange | Missing:
    """Return the change between two sides, one of `comparisons` judged together."""
    if not before or not after:
        return Missing("one side has no run with it")
    if len(before) + len(after) < 3:
        return Missing("one run per side does not show how much runs vary")
    error, degrees = _error(before, after)
    confidence = 1 - 0.05 / max(comparisons, 1)
    width = quantile(confidence, degrees) * error
    shift = _mean(after) - _mean(before)
    return RunsChange(
        before=math.exp(_mean(before)),
        after=math.exp(_mean(after)),
        before_runs=tuple(run.level for run in before),
        after_runs=tuple(run.level for run in after),
        ratio=_ratio(shift),
        low_ratio=_ratio(shift - width),
        high_ratio=_ratio(shift + width),
        least_ratio=max(_ratio(width), LEAST_CHANGE_RATIO),
        confidence=confidence,
        degrees=degrees,
    )


def _error(before: Sequence[Observation], after: Sequence[Observation]) -> tuple[float, float]:
    """Return the standard error of the difference, and its degrees of freedom."""
    counts = (len(before), len(after))
    if min(counts) == 1:
        many = before if len(before) > 1 else after
        both = max(_variance(many), _own(before), _own(after))
        return math.sqrt(both * (1 / counts[0] + 1 / counts[1])), max(counts) - 1
    parts = [_variance(side) / len(side) for side in (before, after)]
    if not sum(parts):
        return 0.0, sum(counts) - 2
    # Welch and Satterthwaite.
    below = sum(part**2 / (count - 1) for part, count in zip(parts, counts, strict=True))
    return math.sqrt(sum(parts)), sum(parts) ** 2 / below


def _variance(side: Sequence[Observation]) -> float:
    """Return the variance of a side, at least that within its runs: two can agree by chance."""
    return max(variance(math.log(run.level) for run in side), _own(side))


def _own(side: Sequence[Observation]) -> float:
    return fmean(run.error**2 for run in side)


def _mean(side: Sequence[Observation]) -> float:
    return fmean(math.log(run.level) for run in side)


def _ratio(shift: float) -> float:
    # With two runs per side the interval can exceed the range of a float.
    return math.expm1(min(shift, 700.0))


# The continued fraction converges within a few dozen terms; this is an upper bound.
_MOST_TERMS = 300
_TINY = 1e-300
_HALVINGS = 60


def quantile(confidence: float, degrees: float) -> float:
    """Return the quantile t of Student's distribution: P(-t < T < t) = `confidence`."""
    low, high = 0.0, 1.0
    while _within(high, degrees) < confidence and high < 1e12:
        high *= 2
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, degrees) < confidence else (low, middle)
    return high


def _within(t: float, degrees: float) -> float:
    """Return P(-t < T < t)."""
    return 1 - _incomplete_beta(degrees / (degrees + t * t), degrees / 2, 0.5)


def _incomplete_beta(x: float, a: float, b: float) -> float:
    """Return the regularized incomplete beta function (Abramowitz and Stegun 26.5.8)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - _incomplete_beta(1 - x, b, a)
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    log_front += a * math.log(x) + b * math.log1p(-x)
    return math.exp(log_front) / (a * _continued_fraction(x, a, b))


def _continued_fraction(x: float, a: float, b: float) -> float:
    """Return the denominator of the continued fraction by Lentz's method."""
    c, d = 1.0, 0.0
    found = 1.0
    for term in range(1, _MOST_TERMS):
        half = term // 2
        if term % 2:
            factor = -(a + half) * (a + b + half) * x / ((a + term - 1) * (a + term))
        else:
            factor = half * (b - half) * x / ((a + term - 1) * (a + term))
        d = 1 / _not_zero(1 + factor * d)
        c = _not_zero(1 + factor / c)
        found *= c * d
        if abs(c * d - 1) < 1e-14:
            break
    return found


def _not_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


_FIRST = Missing("the job has no earlier run with steps")


@dataclass(frozen=True, slots=True)
class Step:
    """How the steps of a run changed since the job's previous run.

    `measure` is what was compared, by its name in documents: the median step, or what changed
    significantly. `cause` is Missing if nothing did.
    """

    measure: str
    ratio: float
    is_significant: bool
    cause: ChangeCause | Missing


@dataclass(frozen=True, slots=True)
class TrendRow:
    """A run of a job; `loop` is its longest loop, whose median step is `step_p50_ns`.

    `goodput_ratio` is the share of its time spent on productive steps.
    """

    run: RunLine
    python: str | Missing
    tensorflow: str | Missing
    loop: str | Missing
    step_p50_ns: float | Missing
    change: Step | Missing
    goodput_ratio: float | Missing


def trend(runs: Iterable[tuple[RunLine, Profile | Missing]]) -> Iterator[TrendRow]:
    """Yield a row for each run of a job, the oldest first.

    Each is compared with the latest earlier run that has steps.
    """
    before: Profile | None = None
    for line, profile in runs:
        yield _row(line, profile, before)
        if not isinstance(profile, Missing) and profile.loops:
            before = profile


def _row(line: RunLine, profile: Profile | Missing, before: Profile | None) -> TrendRow:
    if isinstance(profile, Missing):
        return TrendRow(line, *[profile] * 6)
    unknown = Missing("no process was recorded")
    process = profile.processes[0] if profile.processes else None
    loop = max(profile.loops, key=lambda loop: loop.times.sum_ns, default=None)
    if process is None or loop is None:
        return TrendRow(line, *[unknown] * 6)
    return TrendRow(
        run=line,
        python=process.python,
        tensorflow=process.tensorflow,
        loop=f"{loop.kind} {loop.name}".strip(),
        step_p50_ns=_median_ns(profile, loop),
        change=_FIRST if before is None else _change(diff(before, profile), loop),
        goodput_ratio=_goodput_ratio(profile),
    )


def _goodput_ratio(profile: Profile) -> float | Missing:
    account = merge_accounts(run_accounts(profile))
    if isinstance(account, Missing):
        return account
    return account.goodput_ratio if account.steps else Missing("no step made progress")


def _median_ns(profile: Profile, loop: Loop) -> float | Missing:
    step = times_of(profile, loop).step
    return step.level if step.count else Missing("no regular step was recorded")


def _change(found: Diff | Missing, loop: Loop) -> Step | Missing:
    if isinstance(found, Missing):
        return found
    same = [item for item in found.loops if item.pair.after is loop]
    if not same:
        return Missing("the previous run has no such step")
    return _step(same[0], found.judged)


def _step(loop: LoopDiff, judged: tuple[str, ...]) -> Step | Missing:
    """Return the largest significant change that is judged, else that of the median step."""
    changes = {name: change for name, change in loop.steps.measures if isinstance(change, Change)}
    significant = [name for name in judged if name in changes and changes[name].is_significant]
    if significant:
        name = max(significant, key=lambda name: abs(changes[name].ratio))
        return Step(name, changes[name].ratio, True, loop.cause)
    if "step" not in changes:
        return Missing("too few steps to compare")
    return Step("step", changes["step"].ratio, False, loop.cause)
