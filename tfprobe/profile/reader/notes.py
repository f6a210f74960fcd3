"""Follow what was noted beside steps: activities, what ran between steps, pulses, stacks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Generic, TypeVar

from tfprobe.profile.activities import Activity, Gap, Pulse
from tfprobe.profile.profile import Problem
from tfprobe.profile.reader.activities import activities
from tfprobe.profile.reader.gaps import gaps
from tfprobe.profile.reader.pulses import machine_pulses, pulses
from tfprobe.profile.reader.stack_samples import ProcessStacks
from tfprobe.profile.stack_samples import StackSamples
from tfprobe.runs.activities import ActivityHistory, ActivityLog
from tfprobe.runs.gaps import GapLog, GapRecord, gap_log
from tfprobe.runs.layout import ProcessFolder, RunFolder
from tfprobe.runs.lines import Log
from tfprobe.runs.pulses import MachineLog, PulseLog, machine_log, pulse_log

S = TypeVar("S")
T = TypeVar("T")


class ProcessNotes:
    """The notes of one process, and what of them could not be read."""

    def __init__(self, folder: ProcessFolder) -> None:
        """Begin with nothing read."""
        self._where = f"{folder.host}/{folder.name}"
        self._activities = _Activities(folder)
        self._gaps = gap_log(folder.gaps)
        self._gaps_made: _Made[GapRecord, Gap] = _Made(self._gaps)
        self._pulses = pulse_log(folder.pulses)
        self._pulses_made = _Made(self._pulses, by=_at_ns)
        self._stacks = ProcessStacks(folder)
        self.activities: tuple[Activity, ...] = ()
        self.gaps: tuple[Gap, ...] = ()
        self.pulses: tuple[Pulse, ...] = ()
        self.stacks: StackSamples | None = None
        self.problems: tuple[Problem, ...] = ()

    def read(self, process: int, shift_ns: int, last_ns: int) -> None:
        """Read what is new of a process with this place.

        `shift_ns` is unix time less monotonic time, `last_ns` its last sign of life, monotonic.
        """
        self.activities = self._activities.read(process, shift_ns, last_ns)
        clock = {"process": process, "unix_minus_monotonic_ns": shift_ns}
        self.gaps = self._gaps_made.read(
            (process, shift_ns), lambda new: gaps(GapLog(tuple(new), 0), **clock)
        )
        self.pulses = self._pulses_made.read(
            (process, shift_ns), lambda new: pulses(PulseLog(tuple(new), 0), **clock)
        )
        self.stacks = self._stacks.read(process, shift_ns)
        self.problems = tuple(self._problems())

    def _problems(self) -> Iterator[Problem]:
        yield from _missed(self._activities, self._where, "activities.jsonl are no activities")
        yield from _missed(self._gaps, self._where, "gaps.jsonl are no gaps")
        yield from _missed(self._pulses, self._where, "pulses.jsonl are no pulses")
        yield from _missed(self._stacks, self._where, "stacks.jsonl are no stacks")


class MachineNotes:
    """What the meter of one host wrote of its accelerators."""

    def __init__(self, folder: RunFolder, host: str) -> None:
        """Begin with nothing read."""
        self._host = host
        self._log = machine_log(folder.machine(host))
        self._made = _Made(self._log, by=_at_ns)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Return what could not be read."""
        return tuple(_missed(self._log, f"machine/{self._host}.jsonl", "it are no samples"))

    def read(self) -> tuple[Pulse, ...]:
        """Return the pulses by time, after a look for new ones."""
        return self._made.read(
            (), lambda new: machine_pulses(MachineLog(tuple(new), 0), self._host)
        )


class _Activities:
    """The activities of a process: all are made again when one is new, as one ends another."""

    def __init__(self, folder: ProcessFolder) -> None:
        self._history = ActivityHistory(folder.activities)
        self._log = ActivityLog((), 0)
        self._made_by: tuple[int, ...] = ()
        self._made: tuple[Activity, ...] = ()

    @property
    def bad_lines(self) -> int:
        return self._log.bad_lines

    def read(self, process: int, shift_ns: int, last_ns: int) -> tuple[Activity, ...]:
        if self._history.read():
            self._log, self._made_by = self._history.log, ()
        # Only one that has not ended lasts to the last sign of life.
        is_open = any(line.end_ns is None for line in self._log.lines)
        made_by = (process, shift_ns, last_ns if is_open else 0)
        if made_by != self._made_by:
            self._made_by = made_by
            self._made = activities(
                self._log,
                process=process,
                unix_minus_monotonic_ns=shift_ns,
                last_ns=last_ns,
            )
        return self._made


class _Made(Generic[S, T]):
    """What is made of the lines of a log, of each once; ordered by a key where there is one."""

    def __init__(self, log: Log[S], *, by: Callable[[T], int] | None = None) -> None:
        self._log = log
        self._order = by
        self._made_by: tuple[int, ...] = ()
        self._made: tuple[T, ...] = ()

    def read(
        self, made_by: tuple[int, ...], make: Callable[[Sequence[S]], Iterable[T]]
    ) -> tuple[T, ...]:
        """Return all, after a look for new lines; `made_by` is what else they are made from."""
        if made_by != self._made_by:
            self._made_by = made_by
            self._log.restart()
        news = self._log.read()
        if news.is_from_start:
            self._made = ()
        if news.things:
            made = [*self._made, *make(news.things)]
            self._made = tuple(made if self._order is None else sorted(made, key=self._order))
        return self._made


def _at_ns(pulse: Pulse) -> int:
    return pulse.at_ns


def _missed(log: Log[S] | _Activities | ProcessStacks, where: str, what: str) -> Iterator[Problem]:
    if log.bad_lines:
        yield Problem(where, f"{log.bad_lines} lines of {what}.")
