"""Decide which ranks are slow: the one criterion of tfprobe, for every command, page and finding.

docs/ranks.md ("Who is slow") has the formula and its sources. The times of the processes of a team
are compared step by step, by step number. A process is slow if it takes longer than the others by
more than chance explains and by enough to matter, in most parts of the run, and if the collectives
that were recorded do not say otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist, median
from typing import Literal, TypeVar

import numpy as np
import numpy.typing as npt

from tfprobe.analysis.core.statistics import MAD_OF_NORMAL
from tfprobe.analysis.distributed import synchronization_events
from tfprobe.analysis.distributed.clocks import clocks
from tfprobe.analysis.distributed.rank_parts import MOST_STEPS, Floats, LatestSteps, RankSteps
from tfprobe.analysis.distributed.rank_slots import RankSlot, rank_slots
from tfprobe.analysis.distributed.rank_waits import Turn, Waits, waits
from tfprobe.errors import Missing
from tfprobe.profile.programs import WORKERS

# "cycle" is from step to step, "between" the time before a step, "inside" a traced step without
# the time in collectives, "step" a whole step, where no collective was recorded.
Measure = Literal["cycle", "between", "inside", "step"]
T = TypeVar("T", bound=RankSteps)

# If processes wait for each other outside their steps, the slow one has long steps; if they wait
# within their steps, the others have. With two processes, it is unknown which of them is slow.
_LEAST_OF_STEPS = 3
# A process that is late by this share of its excess from step to step, too, has a pace of its own.
_OWN_PACE_RATIO = 0.5
# Coming last to fewer collectives than these may be chance.
_LEAST_MATCHED = 5
# Equal ranks come last equally often. A slow one comes last this many times as often,
_SHARES = 3.0
# and with few processes, to more than this share.
_MOST_LAST_RATIO = 0.6


@dataclass(frozen=True, slots=True)
class Straggler:
    """How slow a process is in a loop, by the measure in which it is slowest.

    `excess_ns` is how much longer it takes per step than the median process. `last_ratio` is the
    share of the `matched` collectives to which it came last. `is_waited_for` says that it takes no
    longer than the others from step to step, so that they wait for it.
    """

    process: int
    loop: str
    measure: Measure
    late: Lateness
    excess_ns: float
    last_ratio: float | Missing
    matched: int
    is_waited_for: bool = False


@dataclass(frozen=True, slots=True)
class RankStepTimes:
    """The steps of a loop in the processes of a team: a row for each process, a column for each
    step from `first_step` on; in ns, NaN if unknown.
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


def slow_ranks(parts: Sequence[RankSteps]) -> tuple[Straggler, ...]:
    """Return the slow processes of a run, in all loops of all its jobs, the slowest first.

    A process is named by its place among the parts.
    """
    if len(parts) < 2:
        return ()
    parts = numbered(parts)
    processes = [part.process for part in parts]
    slots = rank_slots(processes)
    if not any(len(team) > 1 for team in teams(parts, slots).values()):
        return ()
    events = synchronization_events.merge_events([part.events for part in parts])
    waited = waits(events, clocks(processes, events), [slot.matched_by for slot in slots])
    return slow_in_teams(parts, slots, turns_of(waited))


def slow_in_teams(
    parts: Sequence[RankSteps], slots: Sequence[RankSlot], turns: Mapping[int, Turn]
) -> tuple[Straggler, ...]:
    """Return the same as `slow_ranks`, of parts whose waits are known already."""
    slow: list[Straggler] = []
    for team in teams(parts, slots).values():
        if len(team) > 1:
            loops = dict.fromkeys(steps.key for part in team.values() for steps in part.steps)
            for loop in loops:
                slow += stragglers(team, loop, turns)[0]
    return tuple(sorted(slow, key=_by_excess))


def numbered(parts: Sequence[T]) -> list[T]:
    """Return the parts with their processes numbered in this order: each was read alone, as 0."""
    return [
        replace(part, process=replace(part.process, index=index))
        for index, part in enumerate(parts)
    ]


def turns_of(waited: Waits | Missing) -> dict[int, Turn]:
    """Return what each process did in collectives, by process."""
    return {} if isinstance(waited, Missing) else {turn.process: turn for turn in waited.turns}


def teams(parts: Sequence[T], slots: Sequence[RankSlot]) -> dict[int, dict[int, T]]:
    """Return the workers of each job of a run, by process; of each rank, its latest start."""
    latest: dict[tuple[int, int], int] = {}
    for slot in slots:
        if slot.rank is not None:
            key = slot.group, slot.rank
            latest[key] = max(latest.get(key, 0), slot.generation)
    jobs: dict[int, dict[int, T]] = {}
    for slot in slots:
        if slot.team != WORKERS:
            continue
        if slot.rank is None or slot.generation == latest[slot.group, slot.rank]:
            jobs.setdefault(slot.group, {})[slot.process] = parts[slot.process]
    return jobs


def step_times(parts: Mapping[int, RankSteps], key: str) -> RankStepTimes | Missing:
    """Return the latest steps of a loop that processes have remembered, by step number."""
    steps_of = {
        process: steps
        for process, part in parts.items()
        for steps in part.steps
        if steps.key == key and len(steps.step_ns)
    }
    if len(steps_of) < 2:
        return Missing("fewer than two processes have step times of this loop")
    # If a process is far behind or was started again, its steps of these numbers are of another
    # time.
    last = int(np.median([steps.first_step + len(steps.step_ns) for steps in steps_of.values()]))
    first = max(last - MOST_STEPS, min(steps.first_step for steps in steps_of.values()))
    last = max(steps.first_step + len(steps.step_ns) for steps in steps_of.values())
    last = min(last, first + MOST_STEPS)
    tables = [np.full((len(steps_of), last - first), np.nan) for _ in range(2)]
    for row, steps in enumerate(steps_of.values()):
        for table, values in zip(tables, (steps.step_ns, steps.gap_ns), strict=True):
            _place(table[row], steps, values, first)
    return RankStepTimes(key, tuple(steps_of), first, tables[0], tables[1])


def _place(row: Floats, steps: LatestSteps, values: Floats, first: int) -> None:
    begin = steps.first_step - first
    low, high = max(begin, 0), min(begin + len(values), len(row))
    if high > low:
        row[low:high] = values[low - begin : high - begin]


def stragglers(
    parts: Mapping[int, RankSteps], key: str, turns: Mapping[int, Turn]
) -> tuple[tuple[Straggler, ...], tuple[Straggler, ...]]:
    """Return the slow processes of a team in a loop, the slowest first; and each process of the
    team by its worst measure.
    """
    judged = [
        straggler
        for processes, measure, times_ns, cycle_ns in _tables(parts, key)
        for straggler in _judged(processes, key, measure, times_ns, cycle_ns, turns)
    ]
    worst: dict[int, Straggler] = {}
    for straggler in judged:
        known = worst.get(straggler.process)
        if known is None or _severity(straggler) > _severity(known):
            worst[straggler.process] = straggler
    cycle_ns = {
        judgement.process: judgement.excess_ns
        for judgement in judged
        if judgement.measure == "cycle"
    }
    rows = [_with_waits(worst[process], cycle_ns.get(process)) for process in sorted(worst)]
    slow = sorted((row for row in rows if row.late.is_named), key=_by_excess)
    return tuple(slow), tuple(rows)


def _with_waits(straggler: Straggler, cycle_excess_ns: float | None) -> Straggler:
    """Say whether the others wait for a process, by how much longer it takes from step to step."""
    own_ns = 0.0 if cycle_excess_ns is None else cycle_excess_ns
    is_own = straggler.measure == "cycle" or own_ns > _OWN_PACE_RATIO * straggler.excess_ns
    return replace(straggler, is_waited_for=not is_own)


def slow_by_medians(medians_ns: Mapping[int, Sequence[float]]) -> tuple[Straggler, ...]:
    """Return the slow processes of a team, the slowest first, by medians of successive steps alone.

    The newest median comes last, and medians of one place are of about the same steps. Nothing is
    known of the time between steps or of collectives.
    """
    rows = {process: medians for process, medians in medians_ns.items() if medians}
    if len(rows) < _LEAST_OF_STEPS:
        return ()
    times_ns = np.full((len(rows), max(map(len, rows.values()))), np.nan)
    for row, medians in enumerate(rows.values()):
        times_ns[row, -len(medians) :] = medians
    judged = _judged(list(rows), "", "step", times_ns, _middle(times_ns), {})
    return tuple(
        sorted((judgement for judgement in judged if judgement.late.is_named), key=_by_excess)
    )


def _severity(straggler: Straggler) -> tuple[bool, float]:
    return straggler.late.is_named, straggler.late.z


def _by_excess(straggler: Straggler) -> tuple[float, int]:
    return -straggler.late.excess_ratio, straggler.process


def _tables(
    parts: Mapping[int, RankSteps], key: str
) -> list[tuple[Sequence[int], Measure, Floats, Floats]]:
    """Return the tables to compare: processes, measure, times, and the usual time of each step."""
    tables: list[tuple[Sequence[int], Measure, Floats, Floats]] = []
    times = step_times(parts, key)
    if not isinstance(times, Missing):
        cycle_ns = _middle(times.cycle_ns)
        tables.append((times.processes, "cycle", times.cycle_ns, cycle_ns))
        tables.append((times.processes, "between", times.gap_ns, cycle_ns))
    inside = _inside(parts, key)
    if inside is not None:
        return [*tables, inside]
    if not isinstance(times, Missing) and len(times.processes) >= _LEAST_OF_STEPS:
        tables.append((times.processes, "step", times.step_ns, _middle(times.cycle_ns)))
    return tables


def _inside(
    parts: Mapping[int, RankSteps], key: str
) -> tuple[Sequence[int], Measure, Floats, Floats] | None:
    """Return the time of traced steps outside collectives, of steps that have any."""
    of_process = {
        process: {step.step: step for step in part.recorded if step.key == key and step.met_ns}
        for process, part in parts.items()
    }
    of_process = {process: steps for process, steps in of_process.items() if steps}
    numbers = sorted({number for steps in of_process.values() for number in steps})
    if len(of_process) < 2 or not numbers:
        return None
    own_ns, step_ns = np.full((2, len(of_process), len(numbers)), np.nan)
    column = {number: index for index, number in enumerate(numbers)}
    for row, steps in enumerate(of_process.values()):
        for number, step in steps.items():
            own_ns[row, column[number]] = step.step_ns - step.met_ns
            step_ns[row, column[number]] = step.step_ns
    return tuple(of_process), "inside", own_ns, _middle(step_ns)


def _middle(table: Floats) -> Floats:
    """Return the median of each column, NaN if nothing in it is known."""
    medians = np.full(table.shape[1], np.nan)
    some = ~np.isnan(table).all(axis=0)
    medians[some] = np.nanmedian(table[:, some], axis=0)
    return medians


def _judged(
    processes: Sequence[int],
    key: str,
    measure: Measure,
    times_ns: Floats,
    cycle_ns: Floats,
    turns: Mapping[int, Turn],
) -> list[Straggler]:
    known = ~np.isnan(cycle_ns)
    if not known.any():
        return []
    usual_ns = float(np.median(cycle_ns[known]))
    judged = []
    for late in lateness(times_ns[:, known], cycle_ns[known]):
        process = processes[late.row]
        turn = turns.get(process)
        last: float | Missing = Missing("too few collectives were recorded in several processes")
        if turn is not None and turn.matched >= _LEAST_MATCHED:
            last = turn.last_ratio
        is_named = late.is_named and _is_waited_for(process, last, turns)
        judged.append(
            Straggler(
                process=process,
                loop=key,
                measure=measure,
                late=replace(late, is_named=is_named),
                excess_ns=late.excess_ratio * usual_ns,
                last_ratio=last,
                matched=turn.matched if turn else 0,
            )
        )
    return judged


def _is_waited_for(process: int, last_ratio: float | Missing, turns: Mapping[int, Turn]) -> bool:
    """Say whether the others wait for a process, as far as recorded collectives tell: it comes
    last to more than its share of them, and waits less than the others.
    """
    if isinstance(last_ratio, Missing):
        return True
    waiting_ns = {at: turn.waiting_ns / turn.matched for at, turn in turns.items() if turn.matched}
    own_ns = waiting_ns.pop(process)
    if len(turns) >= FEW:
        return last_ratio >= _SHARES / len(turns) and own_ns < median(waiting_ns.values())
    return last_ratio >= _MOST_LAST_RATIO and own_ns < min(waiting_ns.values(), default=math.inf)


Float64s = npt.NDArray[np.float64]

# How likely one process of a team of equals is named, by each of two tests; it must pass both.
_TEAM_RISK = 1e-3
_OWN_RISK = 5e-2
# A smaller excess is not worth a look. Few processes say less about what is usual.
LEAST_EXCESS_RATIO = 0.02
_LEAST_OF_FEW_RATIO = 0.05
_LEAST_OF_TWO_RATIO = 0.1
FEW = 8
_LEAST_STEPS = 5
# A process must be slow in most parts of the run: one bad hour is another question.
_BLOCKS = 8
_MOST_BLOCKS_RATIO = 0.75
# With fewer steps to a block, the noise of single steps alone makes blocks differ.
_LEAST_OF_BATCHES = 8 * _BLOCKS
# With few processes, the excess must be this many times the range of the others.
_SPREADS_OF_FEW = 2.0
# More than rounding and timers do to equal processes.
_LEAST_SPREAD = 1e-4


@dataclass(frozen=True, slots=True)
class Lateness:
    """How much longer a process takes than its team.

    `excess_ratio` is how much longer than the median process it takes at the same step, as a ratio
    of the step: the mean over steps without the highest and lowest quarter. `z` is the distance of
    that from the median of the team in units of the team's spread (MAD / 0.6745), `own_z` in units
    of its standard error over its own steps and over parts of the run; with two processes both are
    the latter. `steps` is the number of steps compared. `is_named` says that this is not chance.
    """

    row: int
    excess_ratio: float
    z: float
    own_z: float
    steps: int
    is_named: bool


def lateness(times_ns: Float64s, cycle_ns: Float64s) -> tuple[Lateness, ...]:
    """Return how late each process with enough steps is, in the order of the rows.

    `times_ns` has a row for each process and a column for each step, NaN if unknown; `cycle_ns` is
    the usual time from step to step. Only steps known of two processes or more are compared.
    """
    excess = excesses(times_ns, cycle_ns)
    counts = np.count_nonzero(~np.isnan(excess), axis=1)
    rows = np.flatnonzero(counts >= _LEAST_STEPS)
    if len(rows) < 2:
        return ()
    means = np.array([_midmean(_known(excess[row])) for row in rows.tolist()])
    errors = np.array([_error_of_midmean(_known(excess[row])) for row in rows.tolist()])
    return tuple(
        _judge(excess[row], row, means, errors, index) for index, row in enumerate(rows.tolist())
    )


def excesses(times_ns: Float64s, cycle_ns: Float64s) -> Float64s:
    """Return how much longer each time is than the median process's at the same step, as a ratio
    of the step.
    """
    alone = np.count_nonzero(~np.isnan(times_ns), axis=0) < 2
    compared = np.where(alone[np.newaxis], np.nan, times_ns)
    some = ~np.isnan(compared).all(axis=0)
    excess = np.full(times_ns.shape, np.nan)
    middle = np.nanmedian(compared[:, some], axis=0)
    excess[:, some] = (compared[:, some] - middle) / np.maximum(cycle_ns[some], 1)
    return excess


def _judge(excess: Float64s, row: int, means: Float64s, errors: Float64s, index: int) -> Lateness:
    own = _known(excess)
    others = np.delete(means, index)
    middle = float(np.median(means)) if len(means) >= FEW else float(np.median(others))
    beyond = float(means[index]) - middle
    own_z = beyond / max(float(errors[index]), _LEAST_SPREAD)
    risk = _TEAM_RISK if len(means) == 2 else _OWN_RISK
    # A single other process has no spread: only its own steps say what is usual.
    z = own_z if len(means) == 2 else beyond / max(_spread(means, errors, index), _LEAST_SPREAD)
    is_named = (
        beyond >= _least(len(means))
        and z >= _limit_of_team(len(means))
        and own_z >= _quantile(risk / len(means), _freedom(own))
        and _is_lasting(own - middle, beyond)
    )
    return Lateness(row, beyond, z, own_z, len(own), is_named)


def _least(processes: int) -> float:
    if processes == 2:
        return _LEAST_OF_TWO_RATIO
    return _LEAST_OF_FEW_RATIO if processes < FEW else LEAST_EXCESS_RATIO


def _spread(means: Float64s, errors: Float64s, index: int) -> float:
    """Return how far a process of this team may be from the median by chance.

    If its steps vary more than the median process's, its mean is less certain: the difference is
    added.
    """
    if len(means) < FEW:
        others = np.delete(means, index)
        return float(others.max() - others.min())
    of_team = float(np.median(np.abs(means - np.median(means)))) / MAD_OF_NORMAL
    more = max(float(errors[index]) ** 2 - float(np.median(errors)) ** 2, 0.0)
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
    """Return the mean of the middle half: nearly as steady as the mean, unmoved by outliers."""
    ordered = np.sort(values)
    cut = len(ordered) // 4
    return float(ordered[cut : len(ordered) - cut].mean())


def _error_of_midmean(values: Float64s) -> float:
    """Return its standard error: that of the winsorized values (Tukey and McLaughlin, 1963).

    A busy machine slows many consecutive steps, which are not independent: the midmeans of parts of
    the run then vary more than this, and their own standard error counts (batch means).
    """
    ordered = np.sort(values)
    count, cut = len(ordered), len(ordered) // 4
    winsorized = np.clip(ordered, ordered[cut], ordered[count - cut - 1])
    kept_ratio = (count - 2 * cut) / count
    error = float(winsorized.std(ddof=1)) / (kept_ratio * math.sqrt(count))
    if count < _LEAST_OF_BATCHES:
        return error
    batches = [_midmean(batch) for batch in np.array_split(values, _BLOCKS)]
    return max(error, float(np.std(batches, ddof=1)) / math.sqrt(_BLOCKS))


def _freedom(values: Float64s) -> int:
    return (_BLOCKS if len(values) >= _LEAST_OF_BATCHES else len(values)) - 1


def _is_lasting(excess: Float64s, beyond: float) -> bool:
    """Say whether a process is late in most parts of the run, by half its whole excess."""
    blocks = np.array_split(excess, min(_BLOCKS, len(excess) // 2))
    late_blocks = sum(float(np.median(block)) > beyond / 2 for block in blocks)
    return late_blocks >= _MOST_BLOCKS_RATIO * len(blocks)


def _known(values: Float64s) -> Float64s:
    known: Float64s = values[~np.isnan(values)]
    return known
