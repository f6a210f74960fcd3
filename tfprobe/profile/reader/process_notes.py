"""Follow what a process recorded besides steps: activities, gaps, resource samples, stacks."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Generic, TypeVar

import numpy as np

from tfprobe.errors import Missing
from tfprobe.profile.activities import Activity, Gap, ResourceSample, StackSamples
from tfprobe.profile.profile import TORCH_KINDS, Loop, Problem, RecentSteps
from tfprobe.profile.reader.samples import ProcessStacks
from tfprobe.runs.layout import ProcessFolder, RunFolder
from tfprobe.runs.process_folder.activities import ActivityHistory, ActivityLog
from tfprobe.runs.process_folder.gaps import gap_log
from tfprobe.runs.process_folder.jsonl import Log
from tfprobe.runs.process_folder.resource_samples import machine_log, resource_sample_log

T = TypeVar("T")


class ProcessNotes:
    """The notes of one process, and which of them could not be read."""

    def __init__(self, folder: ProcessFolder) -> None:
        """Start with nothing read."""
        self._where = f"{folder.host}/{folder.name}"
        self._activities = _Activities(folder)
        self._gaps = _Records(
            lambda process, shift_ns: gap_log(folder.gaps, process=process, shift_ns=shift_ns)
        )
        self._resource_samples = _Records(
            lambda process, shift_ns: resource_sample_log(
                folder.resource_samples, process=process, shift_ns=shift_ns
            ),
            order=_AT_NS,
        )
        self._folder = folder
        # Most processes have none.
        self._stacks: ProcessStacks | None = None
        self.activities: tuple[Activity, ...] = ()
        self.gaps: tuple[Gap, ...] = ()
        self.resource_samples: tuple[ResourceSample, ...] = ()
        self.stacks: StackSamples | None = None
        self.problems: tuple[Problem, ...] = ()

    def read(self, process: int, shift_ns: int, last_ns: int) -> None:
        """Read what is new from the process with this number.

        `shift_ns` is unix time minus monotonic time, `last_ns` its last sign of life, monotonic.
        """
        self.activities = self._activities.read(process, shift_ns, last_ns)
        self.gaps = self._gaps.read(process, shift_ns)
        self.resource_samples = self._resource_samples.read(process, shift_ns)
        if self._stacks is None and os.path.exists(self._folder.stacks):
            self._stacks = ProcessStacks(self._folder)
        self.stacks = None if self._stacks is None else self._stacks.read(process, shift_ns)
        self.problems = tuple(self._problems())

    def _problems(self) -> Iterator[Problem]:
        yield from _missed(self._activities, self._where, "activities.jsonl are no activities")
        yield from _missed(self._gaps, self._where, "gaps.jsonl are no gaps")
        yield from _missed(self._resource_samples, self._where, "pulses.jsonl are no pulses")
        if self._stacks is not None:
            yield from _missed(self._stacks, self._where, "stacks.jsonl are no stacks")


class MachineNotes:
    """What the GPU monitor of one host recorded about its accelerators."""

    def __init__(self, folder: RunFolder, host: str) -> None:
        """Start with nothing read."""
        self._host = host
        self._samples = _Records(lambda: machine_log(folder.machine(host), host), order=_AT_NS)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Return what could not be read."""
        return tuple(_missed(self._samples, f"machine/{self._host}.jsonl", "it are no samples"))

    def read(self) -> tuple[ResourceSample, ...]:
        """Read what is new; return all samples by time."""
        return self._samples.read()


_AT_NS = operator.attrgetter("at_ns")


class _Activities:
    """The activities of a process, all rebuilt when a new one appears, as one may end another."""

    def __init__(self, folder: ProcessFolder) -> None:
        self._path = folder.activities
        self._clock = (0, 0)
        self._history = ActivityHistory(self._path)
        self._log = ActivityLog((), (), 0)
        self._until_ns: int | None = None
        self._activities: tuple[Activity, ...] = ()

    @property
    def bad_lines(self) -> int:
        return self._log.bad_lines

    def read(self, process: int, shift_ns: int, last_ns: int) -> tuple[Activity, ...]:
        if (process, shift_ns) != self._clock:
            self._clock = process, shift_ns
            self._history = ActivityHistory(self._path, process=process, shift_ns=shift_ns)
            self._log, self._until_ns = ActivityLog((), (), 0), None
        if self._history.read():
            self._log, self._until_ns = self._history.log, None
        # Only activities that have not ended extend to the last sign of life.
        until_ns = last_ns + shift_ns if self._log.begun else 0
        if until_ns != self._until_ns:
            self._until_ns, self._activities = until_ns, self._log.until(until_ns)
        return self._activities


class _Records(Generic[T]):
    """The records of a growing JSONL file, each parsed once, and sorted if `order` is given.

    `open_log` gets the number of the process and the shift of its clock: when they change, the file
    is read from its start.
    """

    def __init__(
        self, open_log: Callable[..., Log[T]], *, order: Callable[[T], int] | None = None
    ) -> None:
        self._open = open_log
        self._order = order
        self._clock: tuple[int, ...] | None = None
        self._log: Log[T] | None = None
        self._records: tuple[T, ...] = ()

    @property
    def bad_lines(self) -> int:
        return 0 if self._log is None else self._log.bad_lines

    def read(self, *clock: int) -> tuple[T, ...]:
        """Read what is new; return all records."""
        if self._log is None or clock != self._clock:
            self._clock, self._log, self._records = clock, self._open(*clock), ()
        news = self._log.read()
        if news.is_from_start:
            self._records = ()
        if news.things:
            records = [*self._records, *news.things]
            self._records = tuple(
                records if self._order is None else sorted(records, key=self._order)
            )
        return self._records


def _missed(
    source: _Records[T] | _Activities | ProcessStacks, where: str, what: str
) -> Iterator[Problem]:
    if source.bad_lines:
        yield Problem(where, f"{source.bad_lines} lines of {what}.")


def with_all_traces(loops: Iterable[Loop], activities: Iterable[Activity]) -> tuple[Loop, ...]:
    """Return the loops, those of functions with all their retraces.

    steps.bin has the retraces up to the agent's last look at the function, which may be gone before
    the next look. Each trace is also an activity with the function's name, whose count is exact.
    """
    traces: dict[tuple[int, str], int] = {}
    for activity in activities:
        if activity.kind == "trace":
            key = (activity.process, activity.name)
            traces[key] = max(traces.get(key, 0), activity.count)
    return tuple(_with_traces(loop, traces.get((loop.process, loop.name), 0)) for loop in loops)


def exposed_gaps(gaps: Iterable[Gap], loops: Iterable[Loop]) -> tuple[Gap, ...]:
    """Return the gaps, those between queued steps as far as the device was idle in them.

    The rest of such a gap is part of the steps that ran in it.
    """
    ratios = {
        (loop.process, loop.index): loop.queue.exposed_ratio
        for loop in loops
        if loop.queue is not None and (loop.kind in TORCH_KINDS or not loop.queue.is_one_by_one)
    }
    if not ratios:
        return tuple(gaps)
    scaled = (_scaled(gap, ratios.get((gap.process, gap.loop), 1.0)) for gap in gaps)
    return tuple(gap for gap in scaled if gap.duration_ns)


# What a fit of Keras does with the model between its own steps.
_EVALUATING = ("evaluate", "predict")


def behind_queued_steps(
    activities: tuple[Activity, ...], loops: Iterable[Loop], shifts_ns: Sequence[int | Missing]
) -> tuple[Activity, ...]:
    """Return the activities; evaluations begin when the training steps queued before are over.

    The program waits for these in the evaluation, which did not cause them. `shifts_ns` are unix
    minus monotonic time of each process.
    """
    queued = [loop for loop in loops if loop.queue is not None and loop.kind == "fit"]
    if not queued:
        return activities
    gone_ns: dict[tuple[int, str, str], int] = {}
    changed = []
    for activity in activities:
        shift_ns = shifts_ns[activity.process]
        if activity.kind not in _EVALUATING or isinstance(shift_ns, Missing):
            changed.append(activity)
            continue
        ends_ns = (
            _queued_until_ns(loop.recent, activity.start_ns - shift_ns) + shift_ns
            for loop in queued
            if (loop.process, loop.thread) == (activity.process, activity.thread)
        )
        start_ns = min(max(ends_ns, default=activity.start_ns), activity.end_ns)
        start_ns = max(start_ns, activity.start_ns)
        key = (activity.process, activity.kind, activity.name)
        # Totals are of all of this name so far.
        gone_ns[key] = gone_ns.get(key, 0) + start_ns - activity.start_ns
        total_ns = max(activity.total_ns - gone_ns[key], 0)
        changed.append(replace(activity, start_ns=start_ns, total_ns=total_ns))
    return tuple(sorted(changed, key=lambda each: (each.start_ns, -each.end_ns)))


def _queued_until_ns(steps: RecentSteps, at_ns: int) -> int:
    """Return when the steps were over that had been called by then; that time where none was."""
    called = int(np.searchsorted(steps.start_ns, at_ns, side="right"))
    waits = np.flatnonzero(steps.waited[max(called - 1, 0) :])
    if not called or not len(waits):
        return at_ns
    return int(steps.end_ns[called - 1 + int(waits[0])])


def _scaled(gap: Gap, ratio: float) -> Gap:
    if ratio == 1.0:
        return gap
    calls = tuple(replace(call, self_ns=int(call.self_ns * ratio)) for call in gap.calls)
    return replace(
        gap,
        duration_ns=sum(call.self_ns for call in calls),
        cost_ns=int(gap.cost_ns * ratio),
        calls=calls,
        cpu_ns=gap.cpu_ns if isinstance(gap.cpu_ns, Missing) else int(gap.cpu_ns * ratio),
    )


def _with_traces(loop: Loop, traces: int) -> Loop:
    if loop.kind != "function" or traces - 1 <= loop.retraces:
        return loop
    return replace(loop, retraces=traces - 1)
