"""Sum up the processes of a run in one row, and name the slow one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from tfprobe.analysis.distributed.slow_ranks import slow_by_medians
from tfprobe.analysis.jobs.fleet import ProcessRow, RunRow
from tfprobe.errors import Missing
from tfprobe.profile.profile import LIVE_STATES

Number = TypeVar("Number", int, float)


def is_live(state: str) -> bool:
    """Say whether a process of this state has not ended."""
    return state in LIVE_STATES


def run_total(run: RunRow) -> ProcessRow | Missing:
    """Return one row for all processes of a run.

    Steps, traced steps, CPUs and memory are sums over the processes that report them; of GPUs and
    overhead it is the largest value. Rate, step times, shares and goodput are those of the process
    with the middle step time (of the live ones, if any): ranks that step together have one pace,
    and a sum would be that of none.
    """
    if not run.processes:
        return Missing("no process has reported yet")
    if len(run.processes) == 1:
        return run.processes[0]
    rows = run.processes
    live = [row for row in rows if is_live(row.state)]
    return replace(
        middle(live or rows),
        state=run.state,
        steps=sum(row.steps for row in rows),
        captures=sum(row.captures for row in rows),
        samples_left=_sum([row.samples_left for row in rows]),
        cpus_used=_sum([row.cpus_used for row in live]),
        resident_bytes=_sum([row.resident_bytes for row in live]),
        gpu_ratio=_largest([row.gpu_ratio for row in live]),
        gpu_memory_bytes=_largest([row.gpu_memory_bytes for row in live]),
        overhead_ratio=_largest([row.overhead_ratio for row in rows]),
    )


def middle(rows: Sequence[ProcessRow]) -> ProcessRow:
    """Return the process with the middle step time, or any process if none has steps."""
    stepped = [row for row in rows if not isinstance(row.p50_ns, Missing)]
    if not stepped:
        return rows[0]
    return sorted(stepped, key=_p50_ns)[len(stepped) // 2]


def straggler(run: RunRow) -> ProcessRow | None:
    """Return the slowest of the live processes that are slow in their group, by the medians of
    their latest steps; None if none is (docs/ranks.md has the criterion).
    """
    slow = [
        (straggler.late.excess_ratio, rows[straggler.process])
        for rows in _groups(run)
        for straggler in slow_by_medians(
            {
                index: row.trend_ns
                for index, row in enumerate(rows)
                if not isinstance(row.trend_ns, Missing)
            }
        )
    ]
    return max(slow, key=lambda pair: pair[0])[1] if slow else None


def slowness(run: RunRow) -> Iterator[tuple[float, ProcessRow]]:
    """Yield the median step of each live process divided by that of the middle one of its group.

    A process that is alone in its group is left out.
    """
    for rows in _groups(run):
        middle_ns = max(_p50_ns(middle(rows)), 1.0)
        if len(rows) > 1:
            yield from ((_p50_ns(row) / middle_ns, row) for row in rows)


def _groups(run: RunRow) -> list[list[ProcessRow]]:
    """Return the live processes with steps, by the job they work on."""
    groups: dict[int, list[ProcessRow]] = {}
    for row in run.processes:
        if is_live(row.state) and not isinstance(row.p50_ns, Missing):
            groups.setdefault(row.group, []).append(row)
    return list(groups.values())


def _p50_ns(row: ProcessRow) -> float:
    return 0.0 if isinstance(row.p50_ns, Missing) else row.p50_ns


def _sum(values: Sequence[Number | Missing]) -> Number | Missing:
    return _of(values, sum)


def _largest(values: Sequence[Number | Missing]) -> Number | Missing:
    return _of(values, max)


def _of(
    values: Sequence[Number | Missing], combine: Callable[[Sequence[Number]], Number]
) -> Number | Missing:
    """Combine the known values, or return the first reason if none is known."""
    known = [value for value in values if not isinstance(value, Missing)]
    if known:
        return combine(known)
    missing = [value for value in values if isinstance(value, Missing)]
    return missing[0] if missing else Missing("no process runs")
