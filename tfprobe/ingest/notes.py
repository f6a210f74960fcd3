"""Read what was noted beside steps: activities, what ran between steps, pulses, settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tfprobe.errors import Missing
from tfprobe.ingest.activities import activities
from tfprobe.ingest.gaps import gaps
from tfprobe.ingest.pulses import machine_pulses, pulses
from tfprobe.model.activities import Activity, Gap, Pulse
from tfprobe.model.profile import Problem, Process
from tfprobe.store.activities import read_activities
from tfprobe.store.catalogue import ProcessEntry
from tfprobe.store.events import EventLog
from tfprobe.store.gaps import read_gaps
from tfprobe.store.layout import RunFolder
from tfprobe.store.pulses import read_machine, read_pulses

NO_SETTINGS = Missing("settings are told at the first sample, and there was none")


class Notes:
    """The notes of the processes of a run so far, and what of them could not be read."""

    def __init__(self) -> None:
        """Start with none."""
        self.activities: list[Activity] = []
        self.gaps: list[Gap] = []
        self.pulses: list[Pulse] = []
        self.problems: list[Problem] = []

    def add(self, entry: ProcessEntry, log: EventLog, process: Process) -> None:
        """Read those of one process."""
        where = f"{entry.folder.host}/{entry.folder.name}"
        shift_ns = process.unix_minus_monotonic_ns
        if isinstance(shift_ns, Missing):
            shift_ns = _shift_ns(log)
        self._add_activities(entry, where, process.index, shift_ns)
        self._add_gaps(entry, where, process.index, shift_ns)
        self._add_pulses(entry, where, process.index, shift_ns)

    def add_machines(self, folder: RunFolder, hosts: Iterable[str]) -> None:
        """Read what meters wrote of the accelerators of these hosts."""
        for host in sorted(set(hosts)):
            told = read_machine(folder.machine(host))
            self._miss(told.bad_lines, f"machine/{host}.jsonl", "it are no samples")
            self.pulses += machine_pulses(told, host)

    def _add_activities(self, entry: ProcessEntry, where: str, index: int, shift_ns: int) -> None:
        told = read_activities(entry.folder.activities)
        self._miss(told.bad_lines, where, "activities.jsonl are no activities")
        last_ns = 0 if isinstance(entry.header, Missing) else entry.header.last_activity_mono_ns
        self.activities += activities(
            told, process=index, unix_minus_monotonic_ns=shift_ns, last_ns=last_ns
        )

    def _add_gaps(self, entry: ProcessEntry, where: str, index: int, shift_ns: int) -> None:
        told = read_gaps(entry.folder.gaps)
        self._miss(told.bad_lines, where, "gaps.jsonl are no gaps")
        self.gaps += gaps(told, process=index, unix_minus_monotonic_ns=shift_ns)

    def _add_pulses(self, entry: ProcessEntry, where: str, index: int, shift_ns: int) -> None:
        told = read_pulses(entry.folder.pulses)
        self._miss(told.bad_lines, where, "pulses.jsonl are no pulses")
        self.pulses += pulses(told, process=index, unix_minus_monotonic_ns=shift_ns)

    def _miss(self, bad_lines: int, where: str, what: str) -> None:
        if bad_lines:
            self.problems.append(Problem(where, f"{bad_lines} lines of {what}."))


def settings(log: EventLog) -> Mapping[str, Any] | Missing:
    """Return what the job had chosen, by the names of docs/design.md."""
    found = (event.fields.get("settings") for event in log.events if event.kind == "settings")
    return next((told for told in found if isinstance(told, dict)), NO_SETTINGS)


def _shift_ns(log: EventLog) -> int:
    """Return unix time less monotonic time, as any event tells it; 0 where there is none."""
    pairs = ((event.unix_ns, event.integer("mono_ns")) for event in log.events)
    return next((unix_ns - mono_ns for unix_ns, mono_ns in pairs if unix_ns and mono_ns), 0)
