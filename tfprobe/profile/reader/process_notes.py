"""Follow what a process noted beside its steps: activities, gaps, resource samples, stacks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Generic, TypeVar

from tfprobe.profile.activities import NOT_NOTED, Activity, Call, Gap, ResourceSample, StackSamples
from tfprobe.profile.profile import Loop, Problem
from tfprobe.profile.reader.samples import ProcessStacks, machine_resource_samples, resource_samples
from tfprobe.runs.layout import ProcessFolder, RunFolder
from tfprobe.runs.process_folder.activities import ActivityHistory, ActivityLine, ActivityLog
from tfprobe.runs.process_folder.gaps import CallRecord, GapLog, GapRecord, gap_log
from tfprobe.runs.process_folder.jsonl import Log
from tfprobe.runs.process_folder.resource_samples import (
    MachineLog,
    ResourceSampleLog,
    machine_log,
    resource_sample_log,
)

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
        self._resource_samples = resource_sample_log(folder.resource_samples)
        self._resource_samples_made = _Made(self._resource_samples, by=_at_ns)
        self._stacks = ProcessStacks(folder)
        self.activities: tuple[Activity, ...] = ()
        self.gaps: tuple[Gap, ...] = ()
        self.resource_samples: tuple[ResourceSample, ...] = ()
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
        self.resource_samples = self._resource_samples_made.read(
            (process, shift_ns),
            lambda new: resource_samples(ResourceSampleLog(tuple(new), 0), **clock),
        )
        self.stacks = self._stacks.read(process, shift_ns)
        self.problems = tuple(self._problems())

    def _problems(self) -> Iterator[Problem]:
        yield from _missed(self._activities, self._where, "activities.jsonl are no activities")
        yield from _missed(self._gaps, self._where, "gaps.jsonl are no gaps")
        yield from _missed(self._resource_samples, self._where, "pulses.jsonl are no pulses")
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

    def read(self) -> tuple[ResourceSample, ...]:
        """Return the pulses by time, after a look for new ones."""
        return self._made.read(
            (), lambda new: machine_resource_samples(MachineLog(tuple(new), 0), self._host)
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


def _at_ns(resource_sample: ResourceSample) -> int:
    return resource_sample.at_ns


def _missed(log: Log[S] | _Activities | ProcessStacks, where: str, what: str) -> Iterator[Problem]:
    if log.bad_lines:
        yield Problem(where, f"{log.bad_lines} lines of {what}.")


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


def with_all_traces(loops: Iterable[Loop], activities: Iterable[Activity]) -> tuple[Loop, ...]:
    """Return works of functions with all their retraces.

    steps.bin has those up to the last look at the function, which is gone when its job ends; each
    trace is an activity of the function's name, and their counts are exact.
    """
    traces: dict[tuple[int, str], int] = {}
    for activity in activities:
        if activity.kind == "trace":
            key = (activity.process, activity.name)
            traces[key] = max(traces.get(key, 0), activity.count)
    return tuple(_with_traces(loop, traces.get((loop.process, loop.name), 0)) for loop in loops)


def _with_traces(loop: Loop, traces: int) -> Loop:
    if loop.kind != "function" or traces - 1 <= loop.retraces:
        return loop
    return replace(loop, retraces=traces - 1)


def gaps(told: GapLog, *, process: int, unix_minus_monotonic_ns: int) -> Iterator[Gap]:
    """Give the gaps of a process in the order they were written; times are unix ns."""
    for gap in told.gaps:
        yield Gap(
            process=process,
            loop=gap.loop,
            step=gap.step,
            start_ns=gap.start_ns + unix_minus_monotonic_ns,
            duration_ns=gap.end_ns - gap.start_ns,
            cost_ns=gap.cost_ns,
            cut=gap.cut,
            calls=tuple(_call(call) for call in gap.calls),
            why=gap.why,
            cpu_ns=NOT_NOTED if gap.cpu_ns is None else gap.cpu_ns,
        )


def _call(call: CallRecord) -> Call:
    return Call(
        parent=call.parent,
        function=call.function.name,
        file=call.function.file,
        line=call.function.line,
        called_line=call.called_line,
        is_generator=call.function.is_generator,
        count=call.count,
        self_ns=call.self_ns,
    )
