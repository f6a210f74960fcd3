"""Say what went on while a step or a gap took longer than usual, as far as the recording knows.

What covers at least half of the time beyond the usual is taken to be why. Of several that do, it
is the most particular: a checkpoint is saved by a callback.
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
from tfprobe.profile.activities import Activity, ResourceSample
from tfprobe.profile.profile import Loop, Profile
from tfprobe.profile.tables import Int64s

UNKNOWN = Missing("not known")
# After so many steps of a loop the agent sums them up, which takes some 100 us.
FOLDED_STEPS = 1024
# Activities, the most particular first. Those around whole loops say nothing.
_KINDS: tuple[str, ...] = (
    "trace",
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
)
_LAST_OF_LOOPS = "build"
_EVALUATING = ("evaluate", "test_on_batch")
_COVERED_RATIO = 0.5
# Kinds of causes that resource samples tell of: they hold for all that goes on at that time.
OF_MACHINE = frozenset({"throttled", "stolen", "waited", "storage", "crowded"})

_WORDS: Mapping[str, str] = {
    "trace": "tracing {name}",
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
    """What went on: `kind` is that of an activity, or one of those that are made below.

    `file` and `line` are the line of Python that took the time, where that was watched.
    """

    kind: str
    name: str
    file: str = ""
    line: int = 0


# Shuffling, validation, the next iterator: little of it has a name.
EPOCH = Cause("epoch", "the end of an epoch")
# What a watch of the gap has seen is more than these say.
_VAGUE = frozenset({"epoch", "calls"}) | OF_MACHINE
COLLECTION = Cause("gc", "garbage collection")
# Keras' methods whose calls are activities, and the kinds of steps that these run.
_METHODS: Mapping[str, str] = {"fit": "train", "evaluate": "evaluate", "predict": "predict"}


def describe_cause(cause: Cause | Missing) -> str:
    """Say in words why something took long."""
    if isinstance(cause, Missing):
        return cause.reason
    return _WORDS.get(cause.kind, "{name}").format(name=cause.name)


@dataclass(frozen=True, slots=True)
class _Covered:
    """When something went on, in monotonic ns."""

    cause: Cause
    times: Intervals

    def within(self, start_ns: Int64s, end_ns: Int64s) -> Int64s:
        """Return how much of each interval is covered."""
        return within_ns(self.times, start_ns, end_ns)


class Causes:
    """What is known of a process that may explain a loop's time. Times asked are monotonic ns."""

    def __init__(self, profile: Profile, loop: Loop) -> None:
        """Gather what went on beside the steps of `work`."""
        shift = profile.processes[loop.process].unix_minus_monotonic_ns
        self._shift_ns = 0 if isinstance(shift, Missing) else shift
        known = not isinstance(shift, Missing)
        activities = [
            activity
            for activity in profile.activities
            if known and activity.process == loop.process
        ]
        resource_samples = [
            sample
            for sample in profile.resource_samples
            if known and sample.process == loop.process
        ]
        loops = [
            each for each in profile.loops if each.process == loop.process and each is not loop
        ]
        self.fold_ns = _fold_ns(profile, loop)
        self._machine = MachineCauses(resource_samples)
        pauses = [
            pause for resource_sample in resource_samples for pause in resource_sample.gc_pauses
        ]
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
        return np.array(sorted(each - self._shift_ns for each in unix_ns), dtype=np.int64)

    def explain(
        self, start_ns: Int64s, end_ns: Int64s, excess_ns: Int64s
    ) -> tuple[Cause | Missing, ...]:
        """Return what explains so much time beyond the usual in each interval."""
        found: list[Cause | Missing] = [UNKNOWN] * len(start_ns)
        for covered in reversed(self._covered() if found else ()):
            enough = covered.within(start_ns, end_ns) >= _COVERED_RATIO * excess_ns
            for at in np.flatnonzero(enough).tolist():
                found[at] = covered.cause
        for at, each in enumerate(found):
            if each is UNKNOWN:
                found[at] = self._named(int(start_ns[at]), int(end_ns[at]))
        left = np.array([at for at, each in enumerate(found) if each is UNKNOWN], dtype=np.int64)
        shift_ns = self._shift_ns
        waits = self._machine.explain(
            start_ns[left] + shift_ns, end_ns[left] + shift_ns, excess_ns[left]
        )
        for at, wait in zip(left.tolist(), waits, strict=True):
            if wait is not None:
                found[at] = Cause(wait.kind, wait.name)
        return tuple(found)

    def watched(self, step: int, excess_ns: int) -> Cause | None:
        """Return the line that took most of so much time before a step, if that was watched."""
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

    def _covered(self) -> tuple[_Covered, ...]:
        """Return what went on, the most particular first."""
        events = _in_order(self._activities, self._loops, self._loop.thread, self._shift_ns)
        around = (event for event in events if not _is_around(event, self._loop))
        return (self._collections, *around)

    def _named(self, start_ns: int, end_ns: int) -> Cause | Missing:
        """Return what nothing covers and has a name all the same."""
        if _has_any(self._call_ends_ns, start_ns, end_ns):
            return Cause("calls", f"between two calls of {self._loop.kind}")
        return EPOCH if _has_any(self._epochs_ns, start_ns, end_ns) else UNKNOWN


def _fold_ns(profile: Profile, loop: Loop) -> float:
    """Return what the agent took for summing up steps once, on average; 0 where nobody knows."""
    hooks = profile.processes[loop.process].hooks
    loops = (each for each in profile.loops if each.process == loop.process)
    folds = sum(each.executed // FOLDED_STEPS for each in loops)
    return 0.0 if isinstance(hooks, Missing) or not folds else hooks.fold_ns / folds


def is_vague(cause: Cause | Missing) -> bool:
    """Say whether a line of Python tells more than this cause."""
    return isinstance(cause, Missing) or cause.kind in _VAGUE


def _duration_ns(cause: WatchedCause) -> int:
    return cause.duration_ns


def _in_order(
    activities: Sequence[Activity], loops: Sequence[Loop], thread: str, shift_ns: int
) -> Iterator[_Covered]:
    """Give what went on, the most particular first."""
    for kind in _KINDS:
        named: dict[str, list[Activity]] = {}
        for activity in activities:
            if activity.kind == kind:
                named.setdefault(activity.name, []).append(activity)
        for name, these in named.items():
            times = [(each.start_ns, each.end_ns) for each in these]
            yield _covered(Cause(kind, name), times, shift_ns)
        if kind == _LAST_OF_LOOPS:
            yield from _of_loops(loops, thread)


def _covered(cause: Cause, unix_times: Sequence[tuple[int, int]], shift_ns: int) -> _Covered:
    start_ns, end_ns = np.array(unix_times, dtype=np.int64).reshape(-1, 2).T - shift_ns
    return _Covered(cause, union(start_ns, end_ns))


def _of_loops(loops: Sequence[Loop], thread: str) -> Iterator[_Covered]:
    """Give the steps that other loops took on the same thread."""
    for loop in loops:
        if loop.thread != thread:
            continue
        kind = "evaluate" if loop.kind in _EVALUATING else "work"
        name = f"{loop.kind} {loop.name}".strip()
        yield _Covered(Cause(kind, name), union(loop.recent.start_ns, loop.recent.end_ns))


def _is_around(covered: _Covered, loop: Loop) -> bool:
    """Say whether the steps of a loop are all within something: then it explains none of them."""
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


# Of the excess of all slow steps between two samples.
LEAST_PAID_RATIO = 0.5
# What a process waits as a rule takes several distances between samples to know.
_LEAST_DISTANCES = 4
# A process that is pushed from its CPUs so much more often than usual shares them with others.
_PUSHED_TIMES = 5.0
_LEAST_PUSHES_PER_S = 50.0
# Others are told of where they keep half a CPU busy.
_LEAST_OTHERS_CORES = 0.5
_NS_PER_S = 1_000_000_000

BY_OTHERS, BY_ITSELF = "other processes ran", "its own threads ran"


@dataclass(frozen=True, slots=True)
class Waited:
    """Why a process waited: `kind` is throttled, stolen, waited, storage or crowded."""

    kind: str
    name: str = ""


class MachineCauses:
    """What resource samples of one process explain. Times are unix ns."""

    def __init__(self, resource_samples: Sequence[ResourceSample]) -> None:
        """Take the samples of one process, in any order."""
        self._resource_samples = sorted(
            resource_samples, key=lambda resource_sample: resource_sample.at_ns
        )
        self._at_ns = np.array(
            [resource_sample.at_ns for resource_sample in self._resource_samples], dtype=np.int64
        )
        pairs = list(itertools.pairwise(self._resource_samples))
        self._knows_usual = len(pairs) >= _LEAST_DISTANCES
        self._usual_delay = _usual(pairs, _delay_ns)
        self._usual_steal = _usual(pairs, _steal_ns)
        self._usual_storage = _usual(pairs, _storage_ns)
        self._usual_pushes = _usual(pairs, _pushes)

    def explain(
        self, start_ns: Int64s, end_ns: Int64s, excess_ns: Int64s
    ) -> tuple[Waited | None, ...]:
        """Return what explains each interval; None where samples explain nothing.

        The intervals are all that ask for an explanation: they share what was waited.
        """
        order = np.argsort(start_ns, kind="stable")
        sums_ns = np.concatenate([[0], np.cumsum(excess_ns[order])])
        before = np.searchsorted(self._at_ns, start_ns, side="right") - 1
        after = np.searchsorted(self._at_ns, end_ns, side="left")
        found: list[Waited | None] = []
        for first, last in zip(before.tolist(), after.tolist(), strict=True):
            if first < 0 or last >= len(self._resource_samples):
                found.append(None)
                continue
            within = np.searchsorted(start_ns[order], self._at_ns[[first, last]], side="left")
            to_pay_ns = int(sums_ns[within[1]] - sums_ns[within[0]])
            found.append(
                self._of(self._resource_samples[first], self._resource_samples[last], to_pay_ns)
            )
        return tuple(found)

    def _of(self, first: ResourceSample, last: ResourceSample, to_pay_ns: int) -> Waited | None:
        least_ns = LEAST_PAID_RATIO * to_pay_ns
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
        """Say whether it was pushed from its CPUs often, for samples without its waiting time."""
        pushes_per_s = _pushes(first, last) * _NS_PER_S / passed_ns
        usual_per_s = self._usual_pushes * _NS_PER_S
        return pushes_per_s >= max(_LEAST_PUSHES_PER_S, _PUSHED_TIMES * usual_per_s)


def _usual(
    pairs: Sequence[tuple[ResourceSample, ResourceSample]],
    grown: Callable[[ResourceSample, ResourceSample], float],
) -> float:
    """Return how far a counter goes in a ns as a rule: the median of all distances."""
    rates = [
        grown(first, last) / (last.at_ns - first.at_ns)
        for first, last in pairs
        if last.at_ns > first.at_ns
    ]
    return float(np.median(rates)) if rates else 0.0


def _delay_ns(first: ResourceSample, last: ResourceSample) -> int:
    return _grown(first.run_delay_ns, last.run_delay_ns)


def _steal_ns(first: ResourceSample, last: ResourceSample) -> float:
    """Return what the hypervisor took of each CPU."""
    cpus = 1 if isinstance(last.cpus, Missing) else max(last.cpus, 1)
    return _grown(first.machine_steal_ns, last.machine_steal_ns) / cpus


def _storage_ns(first: ResourceSample, last: ResourceSample) -> int:
    """Return how long CPUs had nothing to do but wait for storage, if the process used any."""
    used = (
        _grown(first.major_faults, last.major_faults)
        + _grown(first.read_bytes, last.read_bytes)
        + _grown(first.written_bytes, last.written_bytes)
    )
    return _grown(first.machine_io_wait_ns, last.machine_io_wait_ns) if used else 0


def _pushes(first: ResourceSample, last: ResourceSample) -> int:
    return _grown(first.involuntary_switches, last.involuntary_switches)


def _who_ran(first: ResourceSample, last: ResourceSample) -> str:
    own_ns = _grown(first.user_ns, last.user_ns) + _grown(first.system_ns, last.system_ns)
    others_ns = _grown(first.machine_busy_ns, last.machine_busy_ns) - own_ns
    passed_ns = last.at_ns - first.at_ns
    return BY_OTHERS if others_ns >= _LEAST_OTHERS_CORES * passed_ns else BY_ITSELF


def _grown(first: int | Missing, last: int | Missing) -> int:
    """Return how far a counter went, 0 where that is not known."""
    if isinstance(first, Missing) or isinstance(last, Missing):
        return 0
    return max(last - first, 0)
