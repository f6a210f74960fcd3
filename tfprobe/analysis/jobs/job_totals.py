"""Put the processes of a run into one row: what they use together, and the pace of the middle."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from tfprobe.analysis.jobs.fleet import ProcessRow, RunRow
from tfprobe.errors import Missing
from tfprobe.profile.profile import LIVE_STATES

Number = TypeVar("Number", int, float)

# What is slower than the middle by more is named: below, ranks take turns at being the slowest.
SLOWER_RATIO = 1.25


def is_live(state: str) -> bool:
    """Say whether a process of this state has not ended."""
    return state in LIVE_STATES


def together(run: RunRow) -> ProcessRow | Missing:
    """Return one row for all processes of a run.

    Steps, samples, CPUs and memory are sums over the processes that tell them, and GPUs the mean;
    pace, step times, shares and goodput are those of the middle process by step time, of those that
    live where any does: ranks that step together have one pace, and a sum would be nobody's.
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
    """Return the process with the middle step time; one without steps only where none has any."""
    stepped = [row for row in rows if not isinstance(row.p50_ns, Missing)]
    if not stepped:
        return rows[0]
    return sorted(stepped, key=_p50_ns)[len(stepped) // 2]


def straggler(run: RunRow) -> ProcessRow | None:
    """Return the live process whose steps take longest beside those of the middle one of its group,
    if it is slower.
    """
    slow = [each for each in slowness(run) if each[0] > SLOWER_RATIO]
    return max(slow, key=lambda each: each[0])[1] if slow else None


def slowness(run: RunRow) -> Iterator[tuple[float, ProcessRow]]:
    """Give the median step of each live process over that of the middle one of its group.

    A process that has no other in its group is as slow as nobody.
    """
    groups: dict[int, list[ProcessRow]] = {}
    for row in run.processes:
        if is_live(row.state) and not isinstance(row.p50_ns, Missing):
            groups.setdefault(row.group, []).append(row)
    for rows in groups.values():
        middle_ns = max(_p50_ns(middle(rows)), 1.0)
        if len(rows) > 1:
            yield from ((_p50_ns(row) / middle_ns, row) for row in rows)


def _p50_ns(row: ProcessRow) -> float:
    return 0.0 if isinstance(row.p50_ns, Missing) else row.p50_ns


def _sum(values: Sequence[Number | Missing]) -> Number | Missing:
    return _of(values, sum)


def _largest(values: Sequence[Number | Missing]) -> Number | Missing:
    return _of(values, max)


def _of(
    values: Sequence[Number | Missing], combine: Callable[[Sequence[Number]], Number]
) -> Number | Missing:
    """Combine what is known; where nothing is, give the first reason."""
    known = [value for value in values if not isinstance(value, Missing)]
    if known:
        return combine(known)
    missing = [value for value in values if isinstance(value, Missing)]
    return missing[0] if missing else Missing("no process runs")
