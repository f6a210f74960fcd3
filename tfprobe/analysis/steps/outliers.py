"""Steps, and gaps between steps, that took far longer than usual; and what happened then.

An outlier has a robust z above 3.5: 0.6745 (x - median) / MAD (Iglewicz and Hoaglin 1993), with a
floor below tiny MADs. Only long ones are looked for.
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
    FOLDED_STEPS,
    OF_MACHINE,
    UNKNOWN,
    Cause,
    Causes,
    is_vague,
)
from tfprobe.analysis.steps.step_window import StepWindow
from tfprobe.errors import Missing
from tfprobe.profile.tables import Flags, Int64s

# Which parts of the outliers are looked at for what repeats: the longest, and all.
_PARTS = (16, 4, 1)
# With fewer there is no telling what is usual.
LEAST_STEPS = 8
# Of what nothing else is known: it is the first step, which traces, allocates and fills caches.
FIRST_STEP = Cause("first", "the first step")
FOLD = Cause("recording", "tfprobe summed up the previous steps")
# A fold is no longer than so many usual ones, else something else went on.
_LONGEST_FOLD = 4


@dataclass(frozen=True, slots=True)
class Outlier:
    """A step that took too long, or the gap before it; `start_ns` is monotonic."""

    step: int
    is_gap: bool
    start_ns: int
    duration_ns: int
    excess_ns: int
    z: float
    cause: Cause | Missing

    @property
    def what(self) -> str:
        """Name it as the documents do."""
        return "gap" if self.is_gap else "step"


@dataclass(frozen=True, slots=True)
class Outliers:
    """The outliers among `looked_at` steps, or the gaps before them, longest first.

    `excess_ns` is what they took beyond the usual, which is the median; `share_ratio` is its part
    of the time of all steps and gaps that were looked at.
    """

    looked_at: int
    usual_ns: float
    excess_ns: int
    share_ratio: float
    found: tuple[Outlier, ...]
    periods: tuple[Period, ...]


def step_outliers(remembered: StepWindow, causes: Causes) -> Outliers | Missing:
    """Return the steps that took too long."""
    return _outliers(remembered, causes, is_gap=False)


def gap_outliers(remembered: StepWindow, causes: Causes) -> Outliers | Missing:
    """Return the gaps that took too long; each has the number of the step after it."""
    return _outliers(remembered, causes, is_gap=True)


def _outliers(remembered: StepWindow, causes: Causes, *, is_gap: bool) -> Outliers | Missing:
    times_ns = remembered.gap_ns if is_gap else remembered.step_ns
    counts = remembered.gap_counts if is_gap else remembered.counts
    if counts.sum() < LEAST_STEPS:
        return Missing(f"it takes {LEAST_STEPS} steps to know what is usual")
    usual = spread(times_ns[counts])
    is_fold = _is_fold(remembered, causes, times_ns - usual.median, is_gap=is_gap)
    z = robust_z(times_ns, usual, usual_ns=_period_ns(remembered))
    stands_out = counts & (z > OUTLIER_Z)
    rows = np.flatnonzero(stands_out)
    rows = rows[np.argsort(-times_ns[rows], kind="stable")]
    end_ns = remembered.start_ns[rows] if is_gap else remembered.end_ns[rows]
    start_ns = end_ns - times_ns[rows]
    excess_ns = times_ns[rows] - int(usual.median)
    explained = causes.explain(start_ns, end_ns, excess_ns)
    rhythms = _periods(remembered.first_step, counts, rows[~is_fold[rows]])
    if is_gap:
        steps = (remembered.first_step + rows).tolist()
        explained = _by_line(steps, explained, excess_ns.tolist(), causes, rhythms)
    return Outliers(
        looked_at=int(counts.sum()),
        usual_ns=usual.median,
        excess_ns=int(excess_ns.sum()),
        share_ratio=float(excess_ns.sum()) / max(_all_ns(remembered), 1),
        found=tuple(
            Outlier(
                step=remembered.first_step + int(row),
                is_gap=is_gap,
                start_ns=int(start_ns[at]),
                duration_ns=int(times_ns[row]),
                excess_ns=int(excess_ns[at]),
                z=float(z[row]),
                cause=FOLD
                if is_fold[row]
                else _cause(remembered.first_step + int(row), is_gap, explained[at], rhythms),
            )
            for at, row in enumerate(rows)
        ),
        periods=rhythms,
    )


def _is_fold(
    remembered: StepWindow, causes: Causes, excess_ns: npt.NDArray[np.floating], *, is_gap: bool
) -> Flags:
    """Say which gaps are those in which the agent summed up the steps before, and no longer."""
    turns = is_gap & (remembered.numbers % FOLDED_STEPS == 0) & (remembered.numbers > 0)
    found: Flags = turns & (excess_ns <= _LONGEST_FOLD * causes.fold_ns)
    return found


def _periods(first_step: int, counts: Flags, rows: Int64s) -> tuple[Period, ...]:
    """Return what repeats among outliers, longest first, or among the longest of them alone.

    On a busy machine many steps stand out a little, and hide what stands out a lot.
    """
    found: list[Period] = []
    for part in _PARTS:
        stands_out = np.zeros(len(counts), dtype=np.bool_)
        stands_out[rows[: max(len(rows) // part, LEAST_TIMES)]] = True
        for period in periods(first_step, counts, stands_out):
            # A multiple is found where the other turns are not among the longest.
            found = [one for one in found if not _is_in(one, period)]
            if not any(_is_in(period, one) for one in found):
                found.append(period)
    return tuple(sorted(found, key=lambda each: -each.times)[:MOST_PERIODS])


def _is_in(one: Period, other: Period) -> bool:
    """Say whether every turn of a period is one of another period."""
    return one.every % other.every == 0 and (one.first - other.first) % other.every == 0


def _by_line(
    steps: Sequence[int],
    explained: Sequence[Cause | Missing],
    excess_ns: Sequence[int],
    causes: Causes,
    rhythms: Sequence[Period],
) -> tuple[Cause | Missing, ...]:
    """Return why gaps took long, by the line that was seen in them, or in others of a period."""
    seen = {
        step: line
        for step, excess in zip(steps, excess_ns, strict=True)
        if (line := causes.watched(step, excess)) is not None
    }
    usual = {rhythm: _usual(rhythm, seen) for rhythm in rhythms}
    found = []
    for step, known in zip(steps, explained, strict=True):
        of_period = (line for each, line in usual.items() if line and _has_turn(each, step))
        line = seen.get(step) or next(of_period, None)
        found.append(known if line is None or not is_vague(known) else _with_line(known, line))
    return tuple(found)


def _with_line(known: Cause | Missing, line: Cause) -> Cause:
    """Return a line as what it is known to be part of, such as the end of an epoch."""
    if isinstance(known, Missing) or known.kind in OF_MACHINE:
        return line
    return replace(line, kind=known.kind, name=f"{known.name}, {line.name}")


def _usual(period: Period, seen: Mapping[int, Cause]) -> Cause | None:
    """Return the line that was seen most often at the turns of a period."""
    lines = Counter(line for step, line in seen.items() if _has_turn(period, step))
    return max(lines, key=lambda line: lines[line], default=None)


def _has_turn(period: Period, step: int) -> bool:
    return (step - period.first) % period.every == 0


def _period_ns(remembered: StepWindow) -> float:
    """Return how long a step and the gap before it usually take."""
    steps_ns = remembered.step_ns[remembered.counts]
    gaps_ns = remembered.gap_ns[remembered.gap_counts]
    return sum(float(np.median(each)) for each in (steps_ns, gaps_ns) if len(each))


def _all_ns(remembered: StepWindow) -> int:
    """Return the time of all steps and gaps that count."""
    steps_ns = remembered.step_ns[remembered.counts].sum()
    return int(steps_ns + remembered.gap_ns[remembered.gap_counts].sum())


def _cause(
    step: int, is_gap: bool, found: Cause | Missing, rhythms: Sequence[Period]
) -> Cause | Missing:
    """Return why a step took long.

    A first step takes long on an idle machine, too, and what others on the machine do keeps no time
    with the steps of this job.
    """
    if isinstance(found, Missing) or found.kind in OF_MACHINE:
        if step == 0 and not is_gap:
            return FIRST_STEP
        if any(_has_turn(rhythm, step) for rhythm in rhythms):
            return UNKNOWN
    return found


def by_cause(outliers: Outliers) -> tuple[tuple[Cause | Missing, int, int], ...]:
    """Return each cause with how many outliers it explains and their excess, largest first."""
    sums: dict[Cause | Missing, list[int]] = {}
    for each in outliers.found:
        of_cause = sums.setdefault(each.cause, [0, 0])
        of_cause[0] += 1
        of_cause[1] += each.excess_ns
    found = [(cause, count, excess_ns) for cause, (count, excess_ns) in sums.items()]
    return tuple(sorted(found, key=lambda each: -each[2]))


# Three times may be chance to a reader, whatever a formula says.
LEAST_TIMES = 4
# Of all steps whose turn it was, so many must stand out.
LEAST_HELD_RATIO = 0.8
# How likely chance alone may yield any of all the periods that are tried, each of three times.
CHANCE = 0.003
# Rhythms within rhythms: summaries every 10, checkpoints every 100, an evaluation every 1,000.
MOST_PERIODS = 3
# Periods that are looked at together.
_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class Period:
    """Steps `first`, `first + every` ... stand out: `times` of the `turns` that were looked at."""

    every: int
    first: int
    times: int
    turns: int


def periods(first_step: int, looked_at: Flags, stands_out: Flags) -> tuple[Period, ...]:
    """Return the periods in which steps stand out, the one that explains most first.

    Row i of the flags is step `first_step + i`. `stands_out` are steps that do, of those
    `looked_at`; what one period explains is taken out before the next is looked for.
    """
    found: list[Period] = []
    left = stands_out & looked_at
    while len(found) < MOST_PERIODS and (period := _best(looked_at, left)):
        left[period.first % period.every :: period.every] = False
        found.append(period)
    return tuple(
        Period(each.every, first_step + each.first, each.times, each.turns) for each in found
    )


def _best(looked_at: Flags, stands_out: Flags) -> Period | None:
    """Return the period with most of what stands out and least of what does not."""
    rows = np.flatnonzero(stands_out)
    if len(rows) < LEAST_TIMES:
        return None
    longest = int(rows[-1] - rows[0]) // (LEAST_TIMES - 1)
    rate = len(rows) / int(looked_at.sum())
    tried = _tried(rows, looked_at, longest)
    held = [each for each in tried if _is_no_chance(each, rate, longest)]
    return max(held, key=lambda each: each.times**2 / each.turns, default=None)


def _tried(rows: Int64s, looked_at: Flags, longest: int) -> Iterator[Period]:
    """Give of each period up to the longest its best turn, where enough of them stand out."""
    ignored = len(looked_at) - int(np.count_nonzero(looked_at))
    for shortest in range(2, longest + 1, _AT_ONCE):
        every = np.arange(shortest, min(shortest + _AT_ONCE, longest + 1))
        width = int(every[-1])
        turn = rows % every[:, None] + width * np.arange(len(every))[:, None]
        counts = np.bincount(turn.ravel(), minlength=width * len(every)).reshape(-1, width)
        residue, times = counts.argmax(axis=1), counts.max(axis=1)
        fewest = -(-(len(looked_at) - residue) // every) - ignored
        likely = (times >= LEAST_TIMES) & (times >= LEAST_HELD_RATIO * fewest)
        for at in np.flatnonzero(likely).tolist():
            yield from _period(rows, looked_at, int(every[at]), int(residue[at]))


def _period(rows: Int64s, looked_at: Flags, every: int, residue: int) -> Iterator[Period]:
    mine = rows[rows % every == residue]
    turns = int(np.count_nonzero(looked_at[residue::every]))
    if len(mine) >= LEAST_HELD_RATIO * turns:
        yield Period(every, int(mine[0]), len(mine), turns)


def _is_no_chance(period: Period, rate: float, longest: int) -> bool:
    """Say whether so many at once are unlikely, by Chernoff's bound on the binomial distribution.

    All residues of all periods up to `longest` could have been the one.
    """
    held = period.times / period.turns
    if held <= rate:
        return False
    divergence = held * math.log(held / rate)
    if held < 1:
        divergence += (1 - held) * math.log((1 - held) / (1 - rate))
    tried = longest * (longest + 1) / 2
    return math.log(tried) - period.turns * divergence < math.log(CHANCE)
