"""Turn what a process told of its activities into intervals on the wall clock."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tfprobe.profile.activities import Activity
from tfprobe.profile.profile import Work
from tfprobe.runs.activities import ActivityLine, ActivityLog


def activities(
    log: ActivityLog, *, process: int, unix_minus_monotonic_ns: int, last_ns: int
) -> tuple[Activity, ...]:
    """Return the intervals by their beginnings.

    One that was told when it began and never ended lasts to the last sign of life of the process,
    `last_ns` (monotonic): the process was killed in it, or is in it still.
    """
    ended = {_key(line) for line in log.lines if line.end_ns is not None}
    last_ns = max([last_ns, *(line.end_ns or line.start_ns for line in log.lines)])
    lines = [
        line if line.end_ns is not None else _cut(line, last_ns)
        for line in log.lines
        if line.end_ns is not None or _key(line) not in ended
    ]
    found = (_activity(line, process, unix_minus_monotonic_ns, last_ns) for line in lines)
    return tuple(sorted(found, key=lambda item: (item.start_ns, -item.end_ns)))


def _key(line: ActivityLine) -> tuple[str, str, str, int]:
    return line.kind, line.name, line.thread, line.start_ns


def _cut(line: ActivityLine, last_ns: int) -> ActivityLine:
    total_ns = line.total_ns + last_ns - line.start_ns
    return replace(line, end_ns=last_ns, count=line.count + 1, total_ns=total_ns)


def _activity(line: ActivityLine, process: int, shift_ns: int, last_ns: int) -> Activity:
    return Activity(
        process=process,
        kind=line.kind,
        name=line.name,
        thread=line.thread,
        start_ns=line.start_ns + shift_ns,
        end_ns=(last_ns if line.end_ns is None else line.end_ns) + shift_ns,
        count=line.count,
        total_ns=line.total_ns,
        file=line.file,
        line=line.line,
    )


def with_all_traces(works: Iterable[Work], activities: Iterable[Activity]) -> tuple[Work, ...]:
    """Return works of functions with all their retraces.

    steps.bin has those up to the last look at the function, which is gone when its job ends; each
    trace is an activity of the function's name, and their counts are exact.
    """
    traces: dict[tuple[int, str], int] = {}
    for each in activities:
        if each.kind == "trace":
            key = (each.process, each.name)
            traces[key] = max(traces.get(key, 0), each.count)
    return tuple(_with_traces(work, traces.get((work.process, work.name), 0)) for work in works)


def _with_traces(work: Work, traces: int) -> Work:
    if work.kind != "function" or traces - 1 <= work.retraces:
        return work
    return replace(work, retraces=traces - 1)
