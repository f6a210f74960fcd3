"""Find out why steps or gaps took longer than usual, from activities, other loops and samples.

What covers at least half of the excess time is the cause. Of several, the most specific counts: a
checkpoint is saved by a callback.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

import numpy as np

from tfprobe.analysis.breakdown.gap_breakdown import GapCause as WatchedCause
from tfprobe.analysis.breakdown.gap_breakdown import divide_gap
from tfprobe.analysis.core.intervals import Intervals, union, within_ns
from tfprobe.errors import Missing
from tfprobe.profile.activities import COMPILING, Activity, ResourceSample
from tfprobe.profile.profile import Loop, Profile
from tfprobe.profile.tables import Int64s

UNKNOWN = Missing("not known")
# After so many steps of a loop the agent sums them up, which takes some 100 us.
FOLDED_STEPS = 1024
# Kinds of activities, the most specific first. Those around whole loops explain nothing.
_KINDS: tuple[str, ...] = (
    *COMPILING,
    "compile",
    "save",
    "evaluate",
    "predict",
    "summary",
    "data",
    "build",
    "import",
    "user",
    "callbacks",
    "between_cells",
)
_LAST_OF_LOOPS = "build"
_EVALUATING = ("evaluate", "test_on_batch")
_COVERED_RATIO = 0.5
# Kinds of causes that resource samples show: they concern everything that runs at that time.
OF_MACHINE = frozenset({"throttled", "stolen", "waited", "storage", "crowded"})

_WORDS: Mapping[str, str] = {
    "trace": "tracing {name}",
    "lower": "lowering {name}",
    "xla": "XLA compiles {name}",
    "torch_compile": "torch.compile compiles {name}",
    "compile": "compiling {name}",
    "save": "saving {name}",
    "evaluate": "evaluation: {name}",
    "predict": "prediction: {name}",
    "summary": "writing summaries: {name}",
    "data": "preparing data: {name}",
    "build": "building {name}",
    "import": "importing {name}",
    "callbacks": "callback {name}",
    "throttled": "throttled: the CPU limit of the cgroup was reached",
    "stolen": "the hypervisor took its CPUs",
    "waited": "waited for a CPU: {name}",
    "storage": "waited for storage",
    "crowded": "preempted far more often than usual",
}


@dataclass(frozen=True, slots=True)
class Cause:
    """Why something took long: `kind` is that of an activity, or one that this module defines.

    `file` and `line` are the line of Python that took the time, where the gap was watched.
    """

    kind: str
    name: str
    file: str = ""
    line: int = 0


# Shuffling, validation, the next iterator: few of these have a name of their own.
EPOCH = Cause("epoch", "the end of an epoch")
# A program that waits now and then: only then has the device nothing queued.
AFTER_WAIT = Cause("after_wait", "after a wait, the device is idle until the next call")
# A line seen in a watched gap says more than these.
_VAGUE = frozenset({"epoch", "calls", "after_wait"}) | OF_MACHINE
COLLECTION = Cause("gc", "garbage collection")
# Tracing, lowering and compiling, where none of them takes most of the time by itself.
COMPILATIONS = Cause("compilations", "compiling functions")
# Kinds of loops that a method of Keras runs, and the kind of activity that its call is.
_METHODS: Mapping[str, str] = {"fit": "train", "evaluate": "evaluate", "predict": "predict"}


def describe_cause(cause: Cause | Missing) -> str:
    """Return why something took long, in words."""
    if isinstance(cause, Missing):
        return cause.reason
    return _WORDS.get(cause.kind, "{name}").format(name=cause.name)


@dataclass(frozen=True, slots=True)
class _Covered:
    """The times of a possible cause, in monotonic ns."""

    cause: Cause
    times: Intervals

    def within(self, start_ns: Int64s, end_ns: Int64s) -> Int64s:
        """Return how much of each interval is covered."""
        return within_ns(self.times, start_ns, end_ns)


class Causes:
    """What may explain the slow steps and gaps of a loop. Methods take monotonic ns."""

    def __init__(self, profile: Profile, loop: Loop) -> None:
        """Collect what else happened in the process of a loop."""
        shift = profile.processes[loop.process].unix_minus_monotonic_ns
        self._shift_ns = 0 if isinstance(shift, Missing) else shift
        known = not isinstance(shift, Missing)
        activities = [
            activity
            for activity in profile.activities
            if known and activity.process == loop.process
        ]
        samples = [
            sample
            for sample in profile.resource_samples
            if known and sample.process == loop.process
        ]
        loops = [
            other for other in profile.loops if other.process == loop.process and other is not loop
        ]
        self.fold_ns = _fold_ns(profile, loop)
        self._machine = MachineCauses(samples)
        pauses = [pause for sample in samples for pause in sample.gc_pauses]
        self._collections = _covered(COLLECTION, pauses, self._shift_ns)
        self._loop, self._loops, self._activities = loop, loops, activities
        self._watched = {
            gap.step + 1: gap
            for gap in profile.gaps
            if (gap.process, gap.loop) == (loop.process, loop.index)
        }
        self._epochs_ns = self._moments(
            activity.start_ns for activity in activities if ends_epoch(activity)
        )
        method = _METHODS.get(loop.kind)
        self._call_ends_ns = self._moments(
            activity.end_ns
            for activity in activities
            if (activity.kind, activity.thread) == (method, loop.thread)
        )

    def _moments(self, unix_ns: Iterable[int]) -> Int64s:
        return np.array(sorted(time_ns - self._shift_ns for time_ns in unix_ns), dtype=np.int64)

    def explain(
        self, start_ns: Int64s, end_ns: Int64s, excess_ns: Int64s
    ) -> tuple[Cause | Missing, ...]:
        """Return the cause of the excess time of each interval."""
        causes: list[Cause | Missing] = [UNKNOWN] * len(start_ns)
        for covered in reversed(self._covered() if causes else ()):
            enough = covered.within(start_ns, end_ns) >= _COVERED_RATIO * excess_ns
            for index in np.flatnonzero(enough).tolist():
                causes[index] = covered.cause
        for index, cause in enumerate(causes):
            if cause is UNKNOWN:
                causes[index] = self._named(int(start_ns[index]), int(end_ns[index]))
        left = np.array(
            [index for index, cause in enumerate(causes) if cause is UNKNOWN], dtype=np.int64
        )
        shift_ns = self._shift_ns
        waits = self._machine.explain(
            start_ns[left] + shift_ns, end_ns[left] + shift_ns, excess_ns[left]
        )
        for index, wait in zip(left.tolist(), waits, strict=True):
            if wait is not None:
                causes[index] = Cause(wait.kind, wait.name)
        return tuple(causes)

    def watched(self, step: int, excess_ns: int) -> Cause | None:
        """Return the line that took most of the excess time before a step, if it was watched."""
        gap = self._watched.get(step)
        if gap is None:
            return None
        longest = max(divide_gap(gap, has_accelerator=True).causes, key=_duration_ns, default=None)
        if longest is None or longest.duration_ns < _COVERED_RATIO * excess_ns:
            return None
        if not longest.file:
            return Cause("line", longest.what)
        place = f"{PurePath(longest.file).name}:{longest.line}"
        return Cause("line", f"{longest.what} at {place}", longest.file, longest.line)

    def follows_wait(self, step: int) -> bool:
        """Return whether the program waited for the step before, which it does now and then."""
        queue, recent = self._loop.queue, self._loop.recent
        row = step - 1 - recent.first_step
        if queue is None or queue.is_one_by_one or not 0 <= row < len(recent.waited):
            return False
        return bool(recent.waited[row])

    def _covered(self) -> tuple[_Covered, ...]:
        """Return the possible causes with their times, the most specific first."""
        events = _in_order(self._activities, self._loops, self._loop.thread, self._shift_ns)
        around = (event for event in events if not _is_around(event, self._loop))
        return (self._collections, *around)

    def _named(self, start_ns: int, end_ns: int) -> Cause | Missing:
        """Return the name of an interval that no cause covers: between calls, or an epoch's end."""
        if _has_any(self._call_ends_ns, start_ns, end_ns):
            return Cause("calls", f"between two calls of {self._loop.kind}")
        return EPOCH if _has_any(self._epochs_ns, start_ns, end_ns) else UNKNOWN


def _fold_ns(profile: Profile, loop: Loop) -> float:
    """Return the mean time in which the agent sums up steps once; 0 where it is not known."""
    hooks = profile.processes[loop.process].hooks
    loops = (other for other in profile.loops if other.process == loop.process)
    folds = sum(other.executed // FOLDED_STEPS for other in loops)
    return 0.0 if isinstance(hooks, Missing) or not folds else hooks.fold_ns / folds


def is_unexplained(cause: Cause | Missing) -> bool:
    """Return whether nothing of the job itself is known as a cause."""
    return isinstance(cause, Missing) or cause.kind in OF_MACHINE


def is_vague(cause: Cause | Missing) -> bool:
    """Return whether a line of Python says more than this cause."""
    return isinstance(cause, Missing) or cause.kind in _VAGUE


def _duration_ns(cause: WatchedCause) -> int:
    return cause.duration_ns


def _in_order(
    activities: Sequence[Activity], loops: Sequence[Loop], thread: str, shift_ns: int
) -> Iterator[_Covered]:
    """Yield activities and other loops as possible causes, the most specific first."""
    for kind in _KINDS:
        named: dict[str, list[Activity]] = {}
        for activity in activities:
            if activity.kind == kind:
                named.setdefault(activity.name, []).append(activity)
        for name, calls in named.items():
            times = [(call.start_ns, call.end_ns) for call in calls]
            yield _covered(Cause(kind, name), times, shift_ns)
        if kind == COMPILING[-1]:
            compiling = [each for each in activities if each.kind in COMPILING]
            times = [(call.start_ns, call.end_ns) for call in compiling]
            yield _covered(COMPILATIONS, times, shift_ns)
        if kind == _LAST_OF_LOOPS:
            yield from _of_loops(loops, thread)


def _covered(cause: Cause, unix_times: Sequence[tuple[int, int]], shift_ns: int) -> _Covered:
    start_ns, end_ns = np.array(unix_times, dtype=np.int64).reshape(-1, 2).T - shift_ns
    return _Covered(cause, union(start_ns, end_ns))


def _of_loops(loops: Sequence[Loop], thread: str) -> Iterator[_Covered]:
    """Yield the steps of other loops on the same thread as possible causes."""
    for loop in loops:
        if loop.thread != thread:
            continue
        kind = "evaluate" if loop.kind in _EVALUATING else "work"
        name = f"{loop.kind} {loop.name}".strip()
        yield _Covered(Cause(kind, name), union(loop.recent.start_ns, loop.recent.end_ns))


def _is_around(covered: _Covered, loop: Loop) -> bool:
    """Return whether a possible cause surrounds the steps of a loop: then it explains none."""
    start_ns, end_ns = loop.recent.start_ns, loop.recent.end_ns
    if not len(start_ns):
        return False
    shares = covered.within(start_ns, end_ns) / np.maximum(end_ns - start_ns, 1)
    return bool(np.median(shares) > _COVERED_RATIO)


def _has_any(moments_ns: Int64s, start_ns: int, end_ns: int) -> bool:
    first, after = np.searchsorted(moments_ns, [start_ns, end_ns]).tolist()
    return bool(after > first)


def ends_epoch(activity: Activity) -> bool:
    """Return whether an activity is the callback that Keras runs at the end of an epoch."""
    return activity.kind == "callbacks" and activity.name.endswith("on_epoch_end")


# A wait must cover this share of the excess of all slow steps between two samples.
LEAST_PAID_RATIO = 0.5
# It takes several intervals between samples to know how long a process usually waits.
_LEAST_INTERVALS = 4
# A process that is preempted so many times more often than usual shares its CPUs with others.
_PREEMPTED_TIMES = 5.0
_LEAST_PREEMPTIONS_PER_S = 50.0
# Other processes are named where they keep at least half a CPU busy.
_LEAST_OTHERS_CORES = 0.5
_NS_PER_S = 1_000_000_000

BY_OTHERS, BY_ITSELF = "other processes ran", "its own threads ran"


@dataclass(frozen=True, slots=True)
class Waited:
    """Why a process waited: `kind` is throttled, stolen, waited, storage or crowded."""

    kind: str
    name: str = ""


class MachineCauses:
    """What the resource samples of one process explain. Times are unix ns."""

    def __init__(self, samples: Sequence[ResourceSample]) -> None:
        """Take the samples of one process, in any order."""
        self._samples = sorted(samples, key=lambda sample: sample.at_ns)
        self._at_ns = np.array([sample.at_ns for sample in self._samples], dtype=np.int64)
        pairs = list(itertools.pairwise(self._samples))
        self._knows_usual = len(pairs) >= _LEAST_INTERVALS
        self._usual_delay = _usual(pairs, _delay_ns)
        self._usual_steal = _usual(pairs, _steal_ns)
        self._usual_storage = _usual(pairs, _storage_ns)
        self._usual_preemptions = _usual(pairs, _preemptions)

    def explain(
        self, start_ns: Int64s, end_ns: Int64s, excess_ns: Int64s
    ) -> tuple[Waited | None, ...]:
        """Return why the process waited in each interval; None where samples show no reason.

        Waits are shared between the intervals, which must be all that need an explanation.
        """
        order = np.argsort(start_ns, kind="stable")
        sums_ns = np.concatenate([[0], np.cumsum(excess_ns[order])])
        before = np.searchsorted(self._at_ns, start_ns, side="right") - 1
        after = np.searchsorted(self._at_ns, end_ns, side="left")
        waits: list[Waited | None] = []
        for first, last in zip(before.tolist(), after.tolist(), strict=True):
            if first < 0 or last >= len(self._samples):
                waits.append(None)
                continue
            within = np.searchsorted(start_ns[order], self._at_ns[[first, last]], side="left")
            all_excess_ns = int(sums_ns[within[1]] - sums_ns[within[0]])
            waits.append(self._wait(self._samples[first], self._samples[last], all_excess_ns))
        return tuple(waits)

    def _wait(self, first: ResourceSample, last: ResourceSample, excess_ns: int) -> Waited | None:
        least_ns = LEAST_PAID_RATIO * excess_ns
        passed_ns = max(last.at_ns - first.at_ns, 1)
        if _grown(first.throttled_ns, last.throttled_ns) >= least_ns:
            return Waited("throttled")
        if not self._knows_usual:
            return None
        if _steal_ns(first, last) - self._usual_steal * passed_ns >= least_ns:
            return Waited("stolen")
        if _delay_ns(first, last) - self._usual_delay * passed_ns >= least_ns:
            return Waited("waited", _who_ran(first, last))
        if _storage_ns(first, last) - self._usual_storage * passed_ns >= least_ns:
            return Waited("storage")
        if isinstance(last.run_delay_ns, Missing) and self._is_crowded(first, last, passed_ns):
            return Waited("crowded")
        return None

    def _is_crowded(self, first: ResourceSample, last: ResourceSample, passed_ns: int) -> bool:
        """Return whether it was preempted often, for samples without its waiting time."""
        preemptions_per_s = _preemptions(first, last) * _NS_PER_S / passed_ns
        usual_per_s = self._usual_preemptions * _NS_PER_S
        return preemptions_per_s >= max(_LEAST_PREEMPTIONS_PER_S, _PREEMPTED_TIMES * usual_per_s)


def _usual(
    pairs: Sequence[tuple[ResourceSample, ResourceSample]],
    grown: Callable[[ResourceSample, ResourceSample], float],
) -> float:
    """Return by how much a counter usually grows in a ns: the median of all intervals."""
    rates = [
        grown(first, last) / (last.at_ns - first.at_ns)
        for first, last in pairs
        if last.at_ns > first.at_ns
    ]
    return float(np.median(rates)) if rates else 0.0


def _delay_ns(first: ResourceSample, last: ResourceSample) -> int:
    return _grown(first.run_delay_ns, last.run_delay_ns)


def _steal_ns(first: ResourceSample, last: ResourceSample) -> float:
    """Return the time that the hypervisor took, per CPU."""
    cpus = 1 if isinstance(last.cpus, Missing) else max(last.cpus, 1)
    return _grown(first.machine_steal_ns, last.machine_steal_ns) / cpus


def _storage_ns(first: ResourceSample, last: ResourceSample) -> int:
    """Return how long CPUs were idle waiting for storage, if the process used storage."""
    used = (
        _grown(first.major_faults, last.major_faults)
        + _grown(first.read_bytes, last.read_bytes)
        + _grown(first.written_bytes, last.written_bytes)
    )
    return _grown(first.machine_io_wait_ns, last.machine_io_wait_ns) if used else 0


def _preemptions(first: ResourceSample, last: ResourceSample) -> int:
    return _grown(first.involuntary_switches, last.involuntary_switches)


def _who_ran(first: ResourceSample, last: ResourceSample) -> str:
    own_ns = _grown(first.user_ns, last.user_ns) + _grown(first.system_ns, last.system_ns)
    others_ns = _grown(first.machine_busy_ns, last.machine_busy_ns) - own_ns
    passed_ns = last.at_ns - first.at_ns
    return BY_OTHERS if others_ns >= _LEAST_OTHERS_CORES * passed_ns else BY_ITSELF


def _grown(first: int | Missing, last: int | Missing) -> int:
    """Return by how much a counter grew, 0 where that is not known."""
    if isinstance(first, Missing) or isinstance(last, Missing):
        return 0
    return max(last - first, 0)
