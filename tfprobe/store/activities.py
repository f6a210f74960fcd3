"""Read activities.jsonl. Times are monotonic ns."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tfprobe.store import lines


@dataclass(frozen=True, slots=True)
class ActivityLine:
    """One interval as the agent told it. `end_ns` is None where it was told at its beginning.

    `count` and `total_ns` are those of all intervals of this kind and name that had ended by then.
    """

    kind: str
    name: str
    thread: str
    start_ns: int
    end_ns: int | None
    count: int
    total_ns: int


@dataclass(frozen=True, slots=True)
class ActivityLog:
    """The intervals of a process, and how many lines could not be read."""

    lines: tuple[ActivityLine, ...]
    bad_lines: int


def read_activities(path: Path) -> ActivityLog:
    """Read the activities of one process; an absent file holds none."""
    log = activity_log(path)
    return ActivityLog(tuple(log.read().things), log.bad_lines)


def activity_log(path: Path, *, last_bytes: int | None = None) -> lines.Log[ActivityLine]:
    """Return a reader of the activities of a process that may add more; see `lines.Log`."""
    return lines.Log(path, _line, last_bytes=last_bytes)


def _line(line: bytes) -> ActivityLine | None:
    fields = lines.object_of(line)
    if fields is None:
        return None
    kind, name = lines.text(fields, "activity"), lines.text(fields, "name")
    start_ns, end_ns = lines.integer(fields, "start_ns"), lines.integer(fields, "end_ns")
    count, total_ns = lines.integer(fields, "count"), lines.integer(fields, "total_ns")
    if not kind or name is None or start_ns is None or count is None or total_ns is None:
        return None
    if end_ns is None and fields.get("end_ns") is not None:
        return None
    if count < 0 or total_ns < 0 or (end_ns is not None and end_ns < start_ns):
        return None
    thread = lines.text(fields, "thread") or ""
    return ActivityLine(kind, name, thread, start_ns, end_ns, count, total_ns)
