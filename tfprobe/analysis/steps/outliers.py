"""Find steps, and gaps between steps, that took far longer than usual, with causes and periods.

An outlier has a robust z above 3.5: 0.6745 (x - median) / MAD (Iglewicz and Hoaglin 1993), with a
floor for tiny MADs. Unusually short ones are ignored.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tfprobe.analysis.core.statistics import OUTLIER_Z, robust_z, spread
from tfprobe.analysis.steps.slow_step_causes import (
    AFTER_WAIT,
    FOLDED_STEPS,
    OF_MACHINE,
    UNKNOWN,
    Cause,
    Causes,
    is_unexplained,
    is_vague,
)
from tfprobe.analysis.steps.step_window import StepWindow
from tfprobe.errors import Missing
from tfprobe.profile.tables import Flags, Int64s

# Periods are sought among these fractions of the outliers: the longest sixteenth, a quarter, all.
_PARTS = (16, 4, 1)
# With fewer there is no saying what is usual.
LEAST_STEPS = 8
# Where no other cause is known: the first step traces, allocates and fills caches.
FIRST_STEP = Cause("first", "the first step")
FOLD = Cause("recording", "tfprobe summed up the previous steps")
# A fold takes at most so many times the usual one; otherwise there was another cause.
_LONGEST_FOLD = 4


@dataclass(frozen=True, slots=True)
class Outlier:
    """A step that took too long, or the gap before one; `start_ns` is monotonic."""

    step: int
    is_gap: bool
    start_ns: int
    duration_ns: int
    excess_ns: int
    z: float
    cause: Cause | Missing

    @property
    def what(self) -> str:
        """Return its name in documents."""
        return "gap" if self.is_gap else "step"


@dataclass(frozen=True, slots=True)
class Outliers:
    """The outliers among `looked_at` steps, or among the gaps before them, longest first.

    `excess_ns` is what they took beyond the usual time, which is the median; `share_ratio` is its
    share of the time of all counted steps and gaps.
    """

    looked_at: int
    usual_ns: float
    excess_ns: int
    share_ratio: float
    found: tuple[Outlier, ...]
    periods: tuple[Period, ...]


def step_outliers(window: StepWindow, causes: Causes) -> Outliers | Missing:
    """Return the steps that took too long."""
    return _outliers(window, causes, is_gap=False)


def gap_outliers(window: StepWindow, causes: Causes) -> Outliers | Missing:
    """Return the gaps that took too long, each with the number of the step after it."""
    return _outliers(window, causes, is_gap=True)


def _outliers(window: StepWindow, causes: Causes, *, is_gap: bool) -> Outliers | Missing:
    times_ns = window.gap_ns if is_gap else window.step_ns
    counts = window.gap_counts if is_gap else window.counts
    if counts.sum() < LEAST_STEPS:
        return Missing(f"it takes {LEAST_STEPS} steps to know what is usual")
    usual = spread(times_ns[counts])
    is_fold = _is_fold(window, causes, times_ns - usual.median, is_gap=is_gap)
    z = robust_z(times_ns, usual, usual_ns=_period_ns(window))
    stands_out = counts & (z > OUTLIER_Z)
    rows = np.flatnonzero(stands_out)
    rows = rows[np.argsort(-times_ns[rows], kind="stable")]
    end_ns = window.start_ns[rows] if is_gap else window.end_ns[rows]
    start_ns = end_ns - times_ns[rows]
    excess_ns = times_ns[rows] - int(usual.median)
    explained = causes.explain(start_ns, end_ns, excess_ns)
    rhythms = _periods(window.first_step, counts, rows[~is_fold[rows]])
    if is_gap:
        steps = (window.first_step + rows).tolist()
        explained = tuple(
            AFTER_WAIT if is_unexplained(known) and causes.follows_wait(step) else known
            for step, known in zip(steps, explained, strict=True)
        )
        explained = _by_line(steps, explained, excess_ns.tolist(), causes, rhythms)
    return Outliers(
        looked_at=int(counts.sum()),
        usual_ns=usual.median,
        excess_ns=int(excess_ns.sum()),
        share_ratio=float(excess_ns.sum()) / max(_all_ns(window), 1),
        found=tuple(
            Outlier(
                step=window.first_step + int(row),
                is_gap=is_gap,
                start_ns=int(start_ns[index]),
                duration_ns=int(times_ns[row]),
                excess_ns=int(excess_ns[index]),
                z=float(z[row]),
                cause=FOLD
                if is_fold[row]
                else _cause(window.first_step + int(row), is_gap, explained[index], rhythms),
            )
            for index, row in enumerate(rows)
        ),
        periods=rhythms,
    )


def _is_fold(
    window: StepWindow, causes: Causes, excess_ns: npt.NDArray[np.floating], *, is_gap: bool
) -> Flags:
    """Return which gaps are only as long as the agent's summing up of the steps before."""
    turns = is_gap & (window.numbers % FOLDED_STEPS == 0) & (window.numbers > 0)
    is_fold: Flags = turns & (excess_ns <= _LONGEST_FOLD * causes.fold_ns)
    return is_fold


def _periods(first_step: int, counts: Flags, rows: Int64s) -> tuple[Period, ...]:
    """Return the periods of outliers (`rows`, longest first), or of only the longest of them.

    On a busy machine many steps stand out a little and hide those that stand out a lot.
    """
    found: list[Period] = []
    for part in _PARTS:
        stands_out = np.zeros(len(counts), dtype=np.bool_)
        stands_out[rows[: max(len(rows) // part, LEAST_TIMES)]] = True
        for period in periods(first_step, counts, stands_out):
            # Among only the longest, a multiple of the period may have been found.
            found = [other for other in found if not _is_in(other, period)]
            if not any(_is_in(period, other) for other in found):
                found.append(period)
    return tuple(sorted(found, key=lambda period: -period.times)[:MOST_PERIODS])


def _is_in(period: Period, other: Period) -> bool:
    """Return whether every turn of a period is also one of the other."""
    return period.every % other.every == 0 and (period.first - other.first) % other.every == 0


def _by_line(
    steps: Sequence[int],
    explained: Sequence[Cause | Missing],
    excess_ns: Sequence[int],
    causes: Causes,
    rhythms: Sequence[Period],
) -> tuple[Cause | Missing, ...]:
    """Return the causes of gaps, refined by the line seen in them or at other turns of a period."""
    seen = {
        step: line
        for step, excess in zip(steps, excess_ns, strict=True)
        if (line := causes.watched(step, excess)) is not None
    }
    usual = {rhythm: _usual(rhythm, seen) for rhythm in rhythms}
    refined = []
    for step, known in zip(steps, explained, strict=True):
        of_period = (line for rhythm, line in usual.items() if line and _has_turn(rhythm, step))
        line = seen.get(step) or next(of_period, None)
        refined.append(known if line is None or not is_vague(known) else _with_line(known, line))
    return tuple(refined)


def _with_line(known: Cause | Missing, line: Cause) -> Cause:
    """Return a line as part of a known cause, such as the end of an epoch."""
    if isinstance(known, Missing) or known.kind in OF_MACHINE:
        return line
    return replace(line, kind=known.kind, name=f"{known.name}, {line.name}")


def _usual(period: Period, seen: Mapping[int, Cause]) -> Cause | None:
    """Return the line that was seen most often at the turns of a period."""
    lines = Counter(line for step, line in seen.items() if _has_turn(period, step))
    return max(lines, key=lines.__getitem__, default=None)


def _has_turn(period: Period, step: int) -> bool:
    return (step - period.first) % period.every == 0


def _period_ns(window: StepWindow) -> float:
    """Return how long a step and the gap before it usually take."""
    steps_ns = window.step_ns[window.counts]
    gaps_ns = window.gap_ns[window.gap_counts]
    return sum(float(np.median(times_ns)) for times_ns in (steps_ns, gaps_ns) if len(times_ns))


def _all_ns(window: StepWindow) -> int:
    """Return the time of all counted steps and gaps."""
    steps_ns = window.step_ns[window.counts].sum()
    return int(steps_ns + window.gap_ns[window.gap_counts].sum())


def _cause(
    step: int, is_gap: bool, cause: Cause | Missing, rhythms: Sequence[Period]
) -> Cause | Missing:
    """Return why a step or gap took long.

    The machine is no cause of a first step, which is slow on an idle machine, too, nor of a period:
    other programs do not keep time with the steps of this job.
    """
    if isinstance(cause, Missing) or cause.kind in OF_MACHINE:
        if step == 0 and not is_gap:
            return FIRST_STEP
        if any(_has_turn(rhythm, step) for rhythm in rhythms):
            return UNKNOWN
    return cause


def by_cause(outliers: Outliers) -> tuple[tuple[Cause | Missing, int, int], ...]:
    """Return each cause with the number of its outliers and their excess, largest first."""
    sums: dict[Cause | Missing, list[int]] = {}
    for outlier in outliers.found:
        of_cause = sums.setdefault(outlier.cause, [0, 0])
        of_cause[0] += 1
        of_cause[1] += outlier.excess_ns
    causes = [(cause, count, excess_ns) for cause, (count, excess_ns) in sums.items()]
    return tuple(sorted(causes, key=lambda cause: -cause[2]))


# To a reader, three times may be chance, whatever the formula says.
LEAST_TIMES = 4
# At least this share of the turns of a period must stand out.
LEAST_TURNS_RATIO = 0.8
# The highest probability that chance alone yields any of the periods that are tried.
CHANCE = 0.003
# Periods within periods: summaries every 10 steps, checkpoints every 100, evaluations every 1,000.
MOST_PERIODS = 3
# Periods that are tried in one numpy call.
_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class Period:
    """Steps `first`, `first + every` ... stand out: `times` of the `turns` that were counted."""

    every: int
    first: int
    times: int
    turns: int


def periods(first_step: int, looked_at: Flags, stands_out: Flags) -> tuple[Period, ...]:
    """Return the periods at which steps stand out, the one that explains most first.

    Row i of the flags is step `first_step + i`; only steps that were `looked_at` count. What one
    period explains is removed before the next is sought.
    """
    found: list[Period] = []
    left = stands_out & looked_at
    while len(found) < MOST_PERIODS and (period := _best(looked_at, left)):
        left[period.first % period.every :: period.every] = False
        found.append(period)
    return tuple(replace(period, first=first_step + period.first) for period in found)


def _best(looked_at: Flags, stands_out: Flags) -> Period | None:
    """Return the period that covers most steps that stand out and fewest that do not."""
    rows = np.flatnonzero(stands_out)
    if len(rows) < LEAST_TIMES:
        return None
    longest = int(rows[-1] - rows[0]) // (LEAST_TIMES - 1)
    rate = len(rows) / int(looked_at.sum())
    periods = [p for p in _candidates(rows, looked_at, longest) if _is_no_chance(p, rate, longest)]
    return max(periods, key=lambda period: period.times**2 / period.turns, default=None)


def _candidates(rows: Int64s, looked_at: Flags, longest: int) -> Iterator[Period]:
    """Yield each period up to the longest with its best offset, where enough turns stand out."""
    ignored = len(looked_at) - int(np.count_nonzero(looked_at))
    for shortest in range(2, longest + 1, _AT_ONCE):
        every = np.arange(shortest, min(shortest + _AT_ONCE, longest + 1))
        width = int(every[-1])
        turn = rows % every[:, None] + width * np.arange(len(every))[:, None]
        counts = np.bincount(turn.ravel(), minlength=width * len(every)).reshape(-1, width)
        residue, times = counts.argmax(axis=1), counts.max(axis=1)
        fewest = -(-(len(looked_at) - residue) // every) - ignored
        likely = (times >= LEAST_TIMES) & (times >= LEAST_TURNS_RATIO * fewest)
        for index in np.flatnonzero(likely).tolist():
            yield from _period(rows, looked_at, int(every[index]), int(residue[index]))


def _period(rows: Int64s, looked_at: Flags, every: int, residue: int) -> Iterator[Period]:
    of_period = rows[rows % every == residue]
    turns = int(np.count_nonzero(looked_at[residue::every]))
    if len(of_period) >= LEAST_TURNS_RATIO * turns:
        yield Period(every, int(of_period[0]), len(of_period), turns)


def _is_no_chance(period: Period, rate: float, longest: int) -> bool:
    """Return whether chance is unlikely, by Chernoff's bound on the binomial distribution.

    Any offset of any period up to `longest` could have been found.
    """
    share = period.times / period.turns
    if share <= rate:
        return False
    divergence = share * math.log(share / rate)
    if share < 1:
        divergence += (1 - share) * math.log((1 - share) / (1 - rate))
    tried = longest * (longest + 1) / 2
    return math.log(tried) - period.turns * divergence < math.log(CHANCE)
