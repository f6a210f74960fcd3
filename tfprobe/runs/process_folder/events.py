"""Read events.jsonl and the other small files of lines of a run: whole lines only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfprobe.profile.profile import Interpreter
from tfprobe.runs.layout import ProcessFolder, RunFolder
from tfprobe.runs.manifests import ProcessManifest
from tfprobe.runs.process_folder import jsonl
from tfprobe.runs.process_folder.steps_layout import Header


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


def read_events(path: Path) -> EventLog:
    """Read the events of one process; an absent file holds none."""
    log = event_log(path)
    return EventLog(tuple(log.read().things), log.bad_lines)


def event_log(path: Path, *, last_bytes: int | None = None) -> jsonl.Log[Event]:
    """Return a reader of the events of a process that may add more; see `jsonl.Log`."""
    return jsonl.Log(path, _event, last_bytes=last_bytes)


def read_interpreters(path: Path) -> tuple[Interpreter, ...]:
    """Read which interpreters saw the boot directory; an absent file means none did."""
    rows = (_interpreter(line) for line in jsonl.whole_lines(path))
    return tuple(row for row in rows if row is not None)


def interpreter_log(path: Path) -> jsonl.Log[Interpreter]:
    """Return a reader of the interpreters that start; see `jsonl.Log`."""
    return jsonl.Log(path, _interpreter)


def _event(line: bytes) -> Event | None:
    fields = jsonl.object_of(line)
    if fields is None or not isinstance(fields.get("event"), str):
        return None
    unix_ns = fields.get("unix_ns")
    return Event(fields["event"], unix_ns if isinstance(unix_ns, int) else 0, fields)


def _interpreter(line: bytes) -> Interpreter | None:
    parts = line.decode("utf-8", "replace").split("\t")
    if len(parts) != 5 or not (parts[1].isdigit() and parts[2].isdigit()):
        return None
    host, pid, started_unix_ns, version, executable = parts
    return Interpreter(host, int(pid), version, executable, int(started_unix_ns))


@dataclass(frozen=True, slots=True)
class SentSignal:
    """A signal that a process of the job sent: to a process, or to the group `-target`."""

    host: str
    sender: int
    unix_ns: int
    target: int
    number: int
    # Of the same moment; None in older recordings.
    mono_ns: int | None = None


def read_signals(path: Path) -> tuple[SentSignal, ...]:
    """Read which signals the job's own processes sent; an absent file holds none."""
    rows = (_signal(line) for line in jsonl.whole_lines(path))
    return tuple(row for row in rows if row is not None)


def signal_to(
    manifest: ProcessManifest, header: Header | None, sent: Iterable[SentSignal]
) -> SentSignal | None:
    """Return the latest signal that a process got from another one of its job."""
    group = None if manifest.pgid is None else -manifest.pgid
    found: SentSignal | None = None
    for each in sent:
        is_ours = each.host == manifest.host and _is_since_start(each, manifest, header)
        is_other = each.sender != manifest.pid
        if is_ours and is_other and each.target in (manifest.pid, group):
            found = each
    return found


def _is_since_start(sent: SentSignal, manifest: ProcessManifest, header: Header | None) -> bool:
    """Say whether a signal was sent after a process started: its pid may have been another's."""
    if sent.mono_ns is not None and header is not None:
        return sent.mono_ns >= header.started_mono_ns
    return sent.unix_ns >= manifest.started_unix_ns


def signals_around(folder: ProcessFolder) -> tuple[SentSignal, ...]:
    """Read the signals of the run that a process is of."""
    return read_signals(RunFolder(folder.root.parent.parent).signals)


def _signal(line: bytes) -> SentSignal | None:
    host, *rest = line.decode("utf-8", "replace").split("\t")
    try:
        sender, unix_ns, target, number, *mono_ns = map(int, rest)
    except ValueError:
        return None
    return SentSignal(host, sender, unix_ns, target, number, *mono_ns[:1])
