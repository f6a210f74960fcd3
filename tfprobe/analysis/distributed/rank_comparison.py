"""Compare the processes of a job: who is there, who is slow, who waits for whom.

The input is one part per process (`rank_parts`), so that captures of two processes need not be in
memory at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tfprobe.analysis.distributed import synchronization_events
from tfprobe.analysis.distributed.clocks import Clock, Clocks, clocks
from tfprobe.analysis.distributed.rank_facts import facts
from tfprobe.analysis.distributed.rank_parts import Floats, Overlap, RankPart
from tfprobe.analysis.distributed.rank_slots import RankSlot, rank_slots
from tfprobe.analysis.distributed.rank_waits import Servers, Turn, Waits, servers, waits
from tfprobe.analysis.distributed.slow_ranks import (
    RankStepTimes,
    Straggler,
    numbered,
    slow_in_teams,
    step_times,
    stragglers,
    teams,
    turns_of,
)
from tfprobe.errors import Missing
from tfprobe.profile.profile import Process
from tfprobe.profile.programs import WORKERS

MOST_COLUMNS = 48
MOST_FIGURES = 200
ALONE = Missing("only one process ran this loop: there is nothing to compare it with")


@dataclass(frozen=True, slots=True)
class RankRow:
    """A process among those of its job.

    `steps`, `mean_ns` and `late` are those of the loop that is compared; `turn` is what it did in
    recorded collectives. `cells` are its steps divided by the median process's, a median for each
    column, None if unknown.
    """

    process: Process
    slot: RankSlot
    clock: Clock
    steps: int | None
    mean_ns: float | None
    late: Straggler | Missing
    turn: Turn | Missing
    overlap: Overlap | Missing
    cells: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class StepFigures:
    """One step in all processes that remember it: the shortest, the median and the longest time of
    this step, and which processes took them.
    """

    step: int
    known: int
    least_ns: float
    median_ns: float
    most_ns: float
    quickest: int
    slowest: int


@dataclass(frozen=True, slots=True)
class RankComparison:
    """The processes of a job, in their order.

    `loop` is the loop that is compared, with `figures` of its latest steps and the first and last
    step of the `cells` of rows. `stragglers` are the slow processes in this loop, `slow` those
    in any loop of any job.
    """

    rows: tuple[RankRow, ...]
    world: int | None
    clocks: Clocks
    loop: str | Missing
    first_step: int
    last_step: int
    figures: tuple[StepFigures, ...]
    stragglers: tuple[Straggler, ...]
    slow: tuple[Straggler, ...]
    waits: Waits | Missing
    servers: Servers | Missing
    facts: tuple[str, ...]

    @property
    def most_together(self) -> int:
        """Count the workers of the largest group that works in parallel on one job."""
        workers = Counter(row.slot.group for row in self.rows if row.slot.team == WORKERS)
        return max(workers.values(), default=0)

    @property
    def is_job(self) -> bool:
        """Say whether several processes are of one job, in whatever roles."""
        jobs = Counter(row.slot.matched_by for row in self.rows)
        return max(jobs.values(), default=0) > 1


def compare_parts(parts: Sequence[RankPart], *, named: str = "") -> RankComparison:
    """Return the comparison. `named` is in the name of the loop to compare; by default it is the
    loop that takes most time.
    """
    parts = numbered(parts)
    processes = [part.process for part in parts]
    places = rank_slots(processes)
    generation = [place.matched_by for place in places]
    met = synchronization_events.merge_events([part.events for part in parts])
    clock = clocks(processes, met)
    waited = waits(met, clock, generation)
    turns = turns_of(waited)
    team, key = _compared(parts, places, named)
    late: tuple[Straggler, ...] = ()
    worst: tuple[Straggler, ...] = ()
    times: RankStepTimes | Missing = ALONE
    if not isinstance(key, Missing) and len(team) > 1:
        late, worst = stragglers(team, key, turns)
        times = step_times(team, key)
    rows = _rows(parts, places, clock, key, team, worst, turns, times)
    return RankComparison(
        rows=rows,
        world=max(
            (process.world for process in processes if process.world is not None), default=None
        ),
        clocks=clock,
        loop=key,
        first_step=0 if isinstance(times, Missing) else times.first_step,
        last_step=0 if isinstance(times, Missing) else times.last_step,
        figures=() if isinstance(times, Missing) else tuple(_figures(times)),
        stragglers=late,
        slow=slow_in_teams(parts, places, turns),
        waits=waited,
        servers=servers(parts, met),
        facts=facts(parts, clock),
    )


def _compared(
    parts: Sequence[RankPart], places: Sequence[RankSlot], named: str
) -> tuple[dict[int, RankPart], str | Missing]:
    """Return the processes of the job to compare, and the loop.

    If there are several jobs or loops, those that took most time are chosen, with several processes
    if there are any.
    """
    jobs = teams(parts, places)
    total_ns: dict[tuple[int, str], int] = {}
    for group, job in jobs.items():
        for part in job.values():
            for steps in part.steps:
                if named in steps.key:
                    key = group, steps.key
                    total_ns[key] = total_ns.get(key, 0) + steps.total_ns
    if not total_ns:
        reason = f"no loop has {named!r} in its kind and name" if named else "no worker ran a step"
        return {}, Missing(reason)
    group, loop = max(total_ns, key=lambda key: (len(jobs[key[0]]) > 1, total_ns[key], key))
    return jobs[group], loop


def _rows(
    parts: Sequence[RankPart],
    places: Sequence[RankSlot],
    clock: Clocks,
    key: str | Missing,
    team: Mapping[int, RankPart],
    worst: Sequence[Straggler],
    turns: Mapping[int, Turn],
    times: RankStepTimes | Missing,
) -> tuple[RankRow, ...]:
    late = {straggler.process: straggler for straggler in worst}
    cells = {} if isinstance(times, Missing) else _cells(times)
    unknown = Missing("too few steps of it can be compared")
    alone = Missing("it does not synchronize with the processes that are compared")
    unmet = Missing("it has no traced step with a collective in common with another process")
    found = []
    for at, part in enumerate(parts):
        mine = [step for step in part.steps if step.key == key]
        steps = mine[0].executed if mine else None
        found.append(
            RankRow(
                process=part.process,
                slot=places[at],
                clock=clock.clocks[at],
                steps=steps,
                mean_ns=mine[0].total_ns / steps if mine and steps else None,
                late=late.get(at, unknown if at in team else alone),
                turn=turns.get(at, unmet),
                overlap=part.overlap,
                cells=cells.get(at, ()),
            )
        )
    return tuple(found)


def _cells(times: RankStepTimes) -> dict[int, tuple[float | None, ...]]:
    """Return the steps of each process divided by the median process's, in columns."""
    ratio = times.step_ns / np.maximum(_middle(times.step_ns), 1)
    columns = np.array_split(np.arange(ratio.shape[1]), min(MOST_COLUMNS, ratio.shape[1]))
    table = np.stack([_middle(ratio[:, column].T) for column in columns], axis=1)
    return {
        process: tuple(None if np.isnan(cell) else float(cell) for cell in table[row].tolist())
        for row, process in enumerate(times.processes)
    }


def _middle(table: Floats) -> Floats:
    """Return the median of each column, NaN if nothing is known."""
    found = np.full(table.shape[1], np.nan)
    some = ~np.isnan(table).all(axis=0)
    found[some] = np.nanmedian(table[:, some], axis=0)
    return found


def _figures(times: RankStepTimes) -> list[StepFigures]:
    """Return the latest steps that several processes remember; all figures of a row are of one
    step.
    """
    known = np.count_nonzero(~np.isnan(times.step_ns), axis=0)
    found = []
    for column in np.flatnonzero(known > 1)[-MOST_FIGURES:].tolist():
        step_ns = times.step_ns[:, column]
        found.append(
            StepFigures(
                step=times.first_step + column,
                known=int(known[column]),
                least_ns=float(np.nanmin(step_ns)),
                median_ns=float(np.nanmedian(step_ns)),
                most_ns=float(np.nanmax(step_ns)),
                quickest=times.processes[int(np.nanargmin(step_ns))],
                slowest=times.processes[int(np.nanargmax(step_ns))],
            )
        )
    return found
