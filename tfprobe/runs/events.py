"""Read events.jsonl and interpreters.tsv: whole lines only, whatever a kill or a full disk left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfprobe.runs import lines


@dataclass(frozen=True, slots=True)
class Event:
    """One rare thing that happened in a process; `fields` holds what its kind adds."""

    kind: str
    unix_ns: int
    fields: Mapping[str, Any]  # Any: whatever JSON value the agent wrote

    def integer(self, key: str) -> int | None:
        value = self.fields.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def text(self, key: str) -> str | None:
        value = self.fields.get(key)
        return value if isinstance(value, str) else None


@dataclass(frozen=True, slots=True)
class EventLog:
    """The events of a process, and how many lines could not be read."""

    events: tuple[Event, ...]
    bad_lines: int


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python interpreter that started with the boot directory on its path."""

    host: str
    pid: int
    unix_ns: int
    version: str
    executable: str


def read_events(path: Path) -> EventLog:
    """Read the events of one process; an absent file holds none."""
    log = event_log(path)
    return EventLog(tuple(log.read().things), log.bad_lines)


def event_log(path: Path, *, last_bytes: int | None = None) -> lines.Log[Event]:
    """Return a reader of the events of a process that may add more; see `lines.Log`."""
    return lines.Log(path, _event, last_bytes=last_bytes)


def read_interpreters(path: Path) -> tuple[Interpreter, ...]:
    """Read which interpreters saw the boot directory; an absent file means none did."""
    rows = (_interpreter(line) for line in lines.whole_lines(path))
    return tuple(row for row in rows if row is not None)


def interpreter_log(path: Path) -> lines.Log[Interpreter]:
    """Return a reader of the interpreters that start; see `lines.Log`."""
    return lines.Log(path, _interpreter)


def _event(line: bytes) -> Event | None:
    fields = lines.object_of(line)
    if fields is None or not isinstance(fields.get("event"), str):
        return None
    unix_ns = fields.get("unix_ns")
    return Event(fields["event"], unix_ns if isinstance(unix_ns, int) else 0, fields)


def _interpreter(line: bytes) -> Interpreter | None:
    parts = line.decode("utf-8", "replace").split("\t")
    if len(parts) != 5 or not (parts[1].isdigit() and parts[2].isdigit()):
        return None
    return Interpreter(parts[0], int(parts[1]), int(parts[2]), parts[3], parts[4])
