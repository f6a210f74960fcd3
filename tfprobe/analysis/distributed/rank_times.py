"""Set the times of a team of processes beside each other, a row each, and tell who is late.

Each column's figures are of the same quantity and the same step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tfprobe.analysis.distributed.rank_parts import MOST_STEPS, Floats, LatestSteps, RankPart
from tfprobe.analysis.distributed.rank_waits import Turn
from tfprobe.analysis.distributed.stragglers import FEW, Late, late
from tfprobe.errors import Missing

# "cycle" is from step to step, "between" the time before a step, "inside" a recorded step without
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
class StepTimes:
    """The steps of a work in the processes of a team: a row of the tables is a process, a column a
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


def step_times(parts: Mapping[int, RankPart], key: str) -> StepTimes | Missing:
    """Return the latest steps of a work that processes have remembered, by their numbers."""
    found = {at: steps for at, part in parts.items() for steps in part.steps if steps.key == key}
    found = {at: steps for at, steps in found.items() if len(steps.step_ns)}
    if len(found) < 2:
        return Missing("fewer than two processes remember steps of this work")
    # Of one that is far behind or was started anew, steps of the same number are of another time.
    last = int(np.median([steps.first_step + len(steps.step_ns) for steps in found.values()]))
    first = max(last - MOST_STEPS, min(steps.first_step for steps in found.values()))
    last = max(steps.first_step + len(steps.step_ns) for steps in found.values())
    last = min(last, first + MOST_STEPS)
    tables = [np.full((len(found), last - first), np.nan) for _ in range(2)]
    for row, steps in enumerate(found.values()):
        for table, values in zip(tables, (steps.step_ns, steps.gap_ns), strict=True):
            _place(table[row], steps, values, first)
    return StepTimes(key, tuple(found), first, tables[0], tables[1])


def _place(row: Floats, steps: LatestSteps, values: Floats, first: int) -> None:
    begin = steps.first_step - first
    low, high = max(begin, 0), min(begin + len(values), len(row))
    if high > low:
        row[low:high] = values[low - begin : high - begin]


def stragglers(
    parts: Mapping[int, RankPart], key: str, turns: Mapping[int, Turn]
) -> tuple[tuple[Straggler, ...], tuple[Straggler, ...]]:
    """Return the processes of a team that are named for a work, the latest first; and of each
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
    """Return the time of recorded steps outside collectives, of steps in which there are any."""
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
