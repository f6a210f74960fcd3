"""Read events.jsonl and the other small files of lines of a run: whole lines only."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfprobe.errors import UnreadableInput
from tfprobe.runs.layout import ProcessFolder, RunFolder
from tfprobe.runs.manifests import LaunchExit, ProcessManifest, RunManifest, read_exit, read_run
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


def event_log(path: Path, *, last_bytes: int | None = None) -> jsonl.Log[Event]:
    """Return a reader of the events of a process that may add more; see `lines.Log`."""
    return jsonl.Log(path, _event, last_bytes=last_bytes)


def read_interpreters(path: Path) -> tuple[Interpreter, ...]:
    """Read which interpreters saw the boot directory; an absent file means none did."""
    rows = (_interpreter(line) for line in jsonl.whole_lines(path))
    return tuple(row for row in rows if row is not None)


def interpreter_log(path: Path) -> jsonl.Log[Interpreter]:
    """Return a reader of the interpreters that start; see `lines.Log`."""
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
    return Interpreter(parts[0], int(parts[1]), int(parts[2]), parts[3], parts[4])


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


# A launch a rank; more than that somebody has put there.
MOST = 100_000
EXIT_SUFFIX = ".exit.json"


class Launches:
    """The records in `launches/` of a run. Each is written once, so each is read once."""

    def __init__(self, folder: RunFolder) -> None:
        """Begin with nothing read."""
        self._directory = folder.launches
        self._read: dict[str, RunManifest | LaunchExit | None] = {}

    def known(self, names: Sequence[str] | None = None) -> tuple[RunManifest, ...]:
        """Return the launches that there are now, by name; what is no record of one is left out.

        `names` is what is in the directory, where that is known already.
        """
        found = self._records(names)
        return tuple(record for record in found if isinstance(record, RunManifest))

    def exits(self, names: Sequence[str] | None = None) -> tuple[LaunchExit, ...]:
        """Return how launches ended whose launchers stayed to see it."""
        return tuple(each for each in self._records(names) if isinstance(each, LaunchExit))

    def _records(self, names: Sequence[str] | None) -> list[RunManifest | LaunchExit | None]:
        names = self._names() if names is None else names[:MOST]
        for name in names:
            if name not in self._read and name.endswith(".json") and not name.startswith("."):
                self._read[name] = self._one(name)
        return [self._read.get(name) for name in names]

    def _names(self) -> list[str]:
        try:
            return sorted(os.listdir(self._directory))[:MOST]
        except OSError:
            return []  # the usual case: a single launch

    def _one(self, name: str) -> RunManifest | LaunchExit | None:
        path = self._directory / name
        try:
            return read_exit(path) if name.endswith(EXIT_SUFFIX) else read_run(path)
        except UnreadableInput:
            return None
