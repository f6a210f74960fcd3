"""Set the times of a team of processes beside each other, a row each, and tell who is late.

Each column's figures are of the same quantity and the same step.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

import numpy as np
import numpy.typing as npt

from tfprobe.analysis.core.statistics import MAD_OF_NORMAL
from tfprobe.analysis.distributed.rank_parts import MOST_STEPS, Floats, LatestSteps, RankPart
from tfprobe.analysis.distributed.rank_waits import Turn
from tfprobe.errors import Missing

# "cycle" is from step to step, "between" the time before a step, "inside" a traced step without
# the time in collectives, "step" a whole one, where no collective was recorded.
Measure = Literal["cycle", "between", "inside", "step"]

# Where processes meet outside of their steps, the slow one has long steps and the others wait
# between theirs. Of two nobody can tell that from the other way round.
_LEAST_OF_STEPS = 3
# Who came last to fewer collectives is not known to be late by them.
_LEAST_MATCHED = 5
# Of equal ranks each is last to its share. A late one is last so many times as often,
_SHARES = 3.0
# of two to more than these.
_MOST_LAST_RATIO = 0.6


@dataclass(frozen=True, slots=True)
class Straggler:
    """A process that is slower than its team, by which measure, and what else tells so.

    `excess_ns` is what it takes longer a step than the middle one. `last_ratio` is to how many of
    the collectives that were matched it came last.
    """

    process: int
    measure: Measure
    late: Late
    excess_ns: float
    last_ratio: float | Missing
    matched: int


@dataclass(frozen=True, slots=True)
class RankStepTimes:
    """The steps of a loop in the processes of a team: a row of the tables is a process, a column a
    step from `first_step` on; ns, NaN where nothing is known.
    """

    key: str
    processes: tuple[int, ...]
    first_step: int
    step_ns: Floats
    gap_ns: Floats

    @property
    def last_step(self) -> int:
        return self.first_step + len(self.step_ns[0]) - 1

    @property
    def cycle_ns(self) -> Floats:
        """Return the time from step to step."""
        return self.step_ns + self.gap_ns


def step_times(parts: Mapping[int, RankPart], key: str) -> RankStepTimes | Missing:
    """Return the latest steps of a loop that processes have remembered, by their numbers."""
    found = {at: steps for at, part in parts.items() for steps in part.steps if steps.key == key}
    found = {at: steps for at, steps in found.items() if len(steps.step_ns)}
    if len(found) < 2:
        return Missing("fewer than two processes have step times of this loop")
    # Of one that is far behind or was started anew, steps of the same number are of another time.
    last = int(np.median([steps.first_step + len(steps.step_ns) for steps in found.values()]))
    first = max(last - MOST_STEPS, min(steps.first_step for steps in found.values()))
    last = max(steps.first_step + len(steps.step_ns) for steps in found.values())
    last = min(last, first + MOST_STEPS)
    tables = [np.full((len(found), last - first), np.nan) for _ in range(2)]
    for row, steps in enumerate(found.values()):
        for table, values in zip(tables, (steps.step_ns, steps.gap_ns), strict=True):
            _place(table[row], steps, values, first)
    return RankStepTimes(key, tuple(found), first, tables[0], tables[1])


def _place(row: Floats, steps: LatestSteps, values: Floats, first: int) -> None:
    begin = steps.first_step - first
    low, high = max(begin, 0), min(begin + len(values), len(row))
    if high > low:
        row[low:high] = values[low - begin : high - begin]


def stragglers(
    parts: Mapping[int, RankPart], key: str, turns: Mapping[int, Turn]
) -> tuple[tuple[Straggler, ...], tuple[Straggler, ...]]:
    """Return the processes of a team that are named for a loop, the latest first; and of each
    process that which is worst of its measures.
    """
    judged = [
        each
        for processes, measure, times_ns, cycle_ns in _tables(parts, key)
        for each in _judged(processes, measure, times_ns, cycle_ns, turns)
    ]
    worst: dict[int, Straggler] = {}
    for each in judged:
        known = worst.get(each.process)
        if known is None or _rank(each) > _rank(known):
            worst[each.process] = each
    named = [each for each in worst.values() if each.late.is_named]
    named.sort(key=lambda each: (-each.late.excess_ratio, each.process))
    return tuple(named), tuple(worst[at] for at in sorted(worst))


def _rank(each: Straggler) -> tuple[bool, float]:
    return each.late.is_named, each.late.z


def _tables(
    parts: Mapping[int, RankPart], key: str
) -> list[tuple[Sequence[int], Measure, Floats, Floats]]:
    found: list[tuple[Sequence[int], Measure, Floats, Floats]] = []
    times = step_times(parts, key)
    if not isinstance(times, Missing):
        cycle_ns = _middle(times.cycle_ns)
        found.append((times.processes, "cycle", times.cycle_ns, cycle_ns))
        found.append((times.processes, "between", times.gap_ns, cycle_ns))
    inside = _inside(parts, key)
    if inside is not None:
        return [*found, inside]
    if not isinstance(times, Missing) and len(times.processes) >= _LEAST_OF_STEPS:
        found.append((times.processes, "step", times.step_ns, _middle(times.cycle_ns)))
    return found


def _inside(
    parts: Mapping[int, RankPart], key: str
) -> tuple[Sequence[int], Measure, Floats, Floats] | None:
    """Return the time of traced steps outside collectives, of steps in which there are any."""
    of_process = {
        at: {each.step: each for each in part.recorded if each.key == key and each.met_ns}
        for at, part in parts.items()
    }
    of_process = {at: each for at, each in of_process.items() if each}
    steps = sorted({step for each in of_process.values() for step in each})
    if len(of_process) < 2 or not steps:
        return None
    own_ns, step_ns = np.full((2, len(of_process), len(steps)), np.nan)
    column = {step: at for at, step in enumerate(steps)}
    for row, recorded in enumerate(of_process.values()):
        for step, each in recorded.items():
            own_ns[row, column[step]] = each.step_ns - each.met_ns
            step_ns[row, column[step]] = each.step_ns
    return tuple(of_process), "inside", own_ns, _middle(step_ns)


def _middle(table: Floats) -> Floats:
    """Return the median of each column, NaN where nothing is known."""
    found = np.full(table.shape[1], np.nan)
    some = ~np.isnan(table).all(axis=0)
    found[some] = np.nanmedian(table[:, some], axis=0)
    return found


def _judged(
    processes: Sequence[int],
    measure: Measure,
    times_ns: Floats,
    cycle_ns: Floats,
    turns: Mapping[int, Turn],
) -> list[Straggler]:
    known = ~np.isnan(cycle_ns)
    if not known.any():
        return []
    usual_ns = float(np.median(cycle_ns[known]))
    found = []
    for each in late(times_ns[:, known], cycle_ns[known]):
        turn = turns.get(processes[each.row])
        matched = turn.matched if turn else 0
        last: float | Missing = Missing("too few collectives were recorded in several processes")
        if turn is not None and matched >= _LEAST_MATCHED:
            last = turn.last_ratio
        excess_ns = each.excess_ratio * usual_ns
        named = each if _comes_last(last, len(turns)) else _not_named(each)
        found.append(Straggler(processes[each.row], measure, named, excess_ns, last, matched))
    return found


def _comes_last(last_ratio: float | Missing, processes: int) -> bool:
    """Say whether collectives, where they were recorded, tell of the same: others wait for it."""
    if isinstance(last_ratio, Missing):
        return True
    fair = _SHARES / processes if processes >= FEW else _MOST_LAST_RATIO
    return last_ratio >= fair


def _not_named(each: Late) -> Late:
    return Late(each.row, each.excess_ratio, each.z, each.own_z, each.steps, is_named=False)


Float64s = npt.NDArray[np.float64]

# How likely one of a whole team is named where all are alike, by each of the two tests; it must
# pass both.
_TEAM_RISK = 1e-3
_OWN_RISK = 5e-2
# Less is not worth a look. Where there are few to compare with, they say little of what is usual.
LEAST_EXCESS_RATIO = 0.02
_LEAST_OF_FEW_RATIO = 0.05
_LEAST_OF_TWO_RATIO = 0.1
FEW = 8
_LEAST_STEPS = 5
# It must be slow in most parts of the run: one bad hour is another question.
_BLOCKS = 8
_MOST_BLOCKS_RATIO = 0.75
# With fewer steps to a block, blocks scatter by the noise of single steps alone.
_LEAST_OF_BATCHES = 8 * _BLOCKS
# Among few the spread of the others is what lies between their first and their last, so many times.
_SPREADS_OF_FEW = 2.0
# Beyond what rounding and timers do to equal processes.
_LEAST_SPREAD = 1e-4


@dataclass(frozen=True, slots=True)
class Late:
    """How late a process is beside its team.

    `excess_ratio` is what it takes longer than the middle process at the same step, as a part of
    the step: a mean over steps without the highest and lowest quarter. `z` is how far that is from
    the middle of the team in units of the team's spread (0.6745 by MAD), `own_z` how far in units
    of what its own steps, and parts of the run, scatter; of two both are that. `steps` are those
    compared. `is_named` says that it is no chance.
    """

    row: int
    excess_ratio: float
    z: float
    own_z: float
    steps: int
    is_named: bool


def late(times_ns: Float64s, cycle_ns: Float64s) -> tuple[Late, ...]:
    """Return how late each process with enough steps is, in the order of the rows.

    `times_ns` has a row for each process and a column for each step, NaN where nothing is known;
    `cycle_ns` is the usual time of each step with all that belongs to it. Only steps are compared
    that two processes or more know.
    """
    excess = excesses(times_ns, cycle_ns)
    counts = np.count_nonzero(~np.isnan(excess), axis=1)
    rows = np.flatnonzero(counts >= _LEAST_STEPS)
    if len(rows) < 2:
        return ()
    means = np.array([_midmean(_known(excess[row])) for row in rows.tolist()])
    errors = np.array([_error_of_midmean(_known(excess[row])) for row in rows.tolist()])
    return tuple(
        _judge(excess[row], row, means, errors, at) for at, row in enumerate(rows.tolist())
    )


def excesses(times_ns: Float64s, cycle_ns: Float64s) -> Float64s:
    """Return by how much each time is longer than the middle process's at the same step, as a part
    of the step.
    """
    alone = np.count_nonzero(~np.isnan(times_ns), axis=0) < 2
    compared = np.where(alone[np.newaxis], np.nan, times_ns)
    some = ~np.isnan(compared).all(axis=0)
    found = np.full(times_ns.shape, np.nan)
    middle = np.nanmedian(compared[:, some], axis=0)
    found[:, some] = (compared[:, some] - middle) / np.maximum(cycle_ns[some], 1)
    return found


def _judge(excess: Float64s, row: int, means: Float64s, errors: Float64s, at: int) -> Late:
    own = _known(excess)
    others = np.delete(means, at)
    middle = float(np.median(means)) if len(means) >= FEW else float(np.median(others))
    beyond = float(means[at]) - middle
    own_z = beyond / max(float(errors[at]), _LEAST_SPREAD)
    risk = _TEAM_RISK if len(means) == 2 else _OWN_RISK
    # One other has no spread: its own steps alone say what is usual.
    z = own_z if len(means) == 2 else beyond / max(_spread(means, errors, at), _LEAST_SPREAD)
    is_named = (
        beyond >= _least(len(means))
        and z >= _limit_of_team(len(means))
        and own_z >= _quantile(risk / len(means), _freedom(own))
        and _is_lasting(own - middle, beyond)
    )
    return Late(row, beyond, z, own_z, len(own), is_named)


def _least(processes: int) -> float:
    if processes == 2:
        return _LEAST_OF_TWO_RATIO
    return _LEAST_OF_FEW_RATIO if processes < FEW else LEAST_EXCESS_RATIO


def _spread(means: Float64s, errors: Float64s, at: int) -> float:
    """Return by how much a process may be off the middle by chance, given those of the team.

    What its own steps scatter more than the middle one's do is added: its mean is the less sure.
    """
    if len(means) < FEW:
        others = np.delete(means, at)
        return float(others.max() - others.min())
    of_team = float(np.median(np.abs(means - np.median(means)))) / MAD_OF_NORMAL
    more = max(float(errors[at]) ** 2 - float(np.median(errors)) ** 2, 0.0)
    return math.sqrt(of_team**2 + more)


def _limit_of_team(processes: int) -> float:
    if processes < FEW:
        return _SPREADS_OF_FEW
    return _quantile(_TEAM_RISK / processes, processes - 1)


def _quantile(risk: float, freedom: int) -> float:
    """Return what Student's t exceeds with this risk (Abramowitz and Stegun, 26.7.5)."""
    z = NormalDist().inv_cdf(1 - risk)
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    return z + first / freedom + second / freedom**2


def _midmean(values: Float64s) -> float:
    """Return the mean of the middle half: nearly as steady as a mean, unmoved by wild values."""
    ordered = np.sort(values)
    cut = len(ordered) // 4
    return float(ordered[cut : len(ordered) - cut].mean())


def _error_of_midmean(values: Float64s) -> float:
    """Return its standard error: that of the winsorised values (Tukey and McLaughlin, 1963).

    A busy machine slows many steps in a row, which are then not independent: the midmeans of parts
    of the run scatter more than this says, and their own standard error counts (batch means).
    """
    ordered = np.sort(values)
    count, cut = len(ordered), len(ordered) // 4
    winsorised = np.clip(ordered, ordered[cut], ordered[count - cut - 1])
    kept = (count - 2 * cut) / count
    error = float(winsorised.std(ddof=1)) / (kept * math.sqrt(count))
    if count < _LEAST_OF_BATCHES:
        return error
    batches = [_midmean(each) for each in np.array_split(values, _BLOCKS)]
    return max(error, float(np.std(batches, ddof=1)) / math.sqrt(_BLOCKS))


def _freedom(values: Float64s) -> int:
    return (_BLOCKS if len(values) >= _LEAST_OF_BATCHES else len(values)) - 1


def _is_lasting(excess: Float64s, beyond: float) -> bool:
    """Say whether it is late in most parts of the run, by half of what it is on the whole."""
    blocks = np.array_split(excess, min(_BLOCKS, len(excess) // 2))
    late_blocks = sum(float(np.median(block)) > beyond / 2 for block in blocks)
    return late_blocks >= _MOST_BLOCKS_RATIO * len(blocks)


def _known(values: Float64s) -> Float64s:
    found: Float64s = values[~np.isnan(values)]
    return found
