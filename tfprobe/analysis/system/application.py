"""Divide the time of each process between its activities, steps included. Knows nothing of ops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tfprobe.analysis.core.intervals import nest, union, within_ns
from tfprobe.analysis.steps.phases import EVALUATION_KINDS
from tfprobe.errors import Missing
from tfprobe.profile.activities import COMPILING, Activity
from tfprobe.profile.profile import Loop, Process, Profile
from tfprobe.profile.tables import Int64s

_EVALUATION = "evaluate"
# Calls that run steps: the first one compiles what these are.
_CALLS = ("train", _EVALUATION, "predict")
UNPLACED_STEPS = Missing("the recording has no clock times of its steps")


@dataclass(frozen=True, slots=True)
class ActivityUse:
    """All intervals of one kind and name in a process; with `is_step`, the steps of a loop.

    `total_ns` includes nested activities. `exclusive_ns` does not: exclusive times of a thread sum
    to the time that it spent in any activity. With `is_estimate`, not all of these intervals or of
    those inside them were kept; the others are assumed to nest like the kept ones. `share_ratio` is
    the exclusive time over the wall time of the process; with several threads it may exceed 1.
    """

    kind: str
    name: str
    is_step: bool
    count: int
    total_ns: int
    exclusive_ns: int | Missing
    is_estimate: bool
    share_ratio: float | Missing


@dataclass(frozen=True, slots=True)
class ProcessActivities:
    """The activities of a process, most exclusive time first.

    `wall_ns` goes from the start of the agent, or of an earlier activity, to the exit or the last
    activity. `elsewhere_ns` is how much of it no thread spent in any activity.
    """

    process: Process
    wall_ns: int | Missing
    activities: tuple[ActivityUse, ...]
    elsewhere_ns: int | Missing


@dataclass(frozen=True, slots=True)
class _Kind:
    """Intervals of one kind and name: their count and total time, and those that were kept."""

    kind: str
    name: str
    is_step: bool
    count: int
    total_ns: int
    threads: tuple[str, ...]
    start_ns: Int64s
    end_ns: Int64s

    @property
    def kept_ns(self) -> int:
        return int((self.end_ns - self.start_ns).sum())

    @property
    def lost_ns(self) -> int:
        return max(self.total_ns - self.kept_ns, 0)


@dataclass(slots=True)
class _Exclusive:
    """Exclusive times by kind, and the time of outermost intervals that were not kept."""

    own_ns: list[float]
    is_estimate: list[bool]
    lost_outermost_ns: float = 0.0


def activities(profile: Profile) -> tuple[ProcessActivities, ...]:
    """Return the activities of each process."""
    return tuple(_of_process(profile, process) for process in profile.processes)


def _of_process(profile: Profile, process: Process) -> ProcessActivities:
    kinds = list(_kinds(profile, process))
    wall_ns = _wall_ns(process, kinds)
    if any(kind.is_step for kind in kinds) and isinstance(process.unix_minus_monotonic_ns, Missing):
        uses = [_use(kind, UNPLACED_STEPS, False, wall_ns) for kind in kinds]
        return ProcessActivities(process, wall_ns, _by_total(uses), UNPLACED_STEPS)
    times = _exclusive(kinds)
    uses = [
        _use(kind, round(own_ns), is_estimate, wall_ns)
        for kind, own_ns, is_estimate in zip(kinds, times.own_ns, times.is_estimate, strict=True)
    ]
    elsewhere_ns = _elsewhere_ns(wall_ns, kinds, times.lost_outermost_ns)
    return ProcessActivities(process, wall_ns, _by_exclusive(uses), elsewhere_ns)


def _wall_ns(process: Process, kinds: Iterable[_Kind]) -> int | Missing:
    if isinstance(process.hooks, Missing):
        return process.hooks
    if not process.hooks.wall_ns:
        return Missing("the process recorded no activity to measure against")
    # The agent starts during the import of TensorFlow, which it times from its beginning. A process
    # that waits in C++ or was killed may have ended activities after it last noted a time.
    noted = [kind for kind in kinds if not kind.is_step and len(kind.start_ns)]
    started_ns = process.started_unix_ns
    start_ns = min([started_ns, *(int(kind.start_ns.min()) for kind in noted)])
    end_ns = max([started_ns + process.hooks.wall_ns, *(int(kind.end_ns.max()) for kind in noted)])
    return end_ns - start_ns


def _kinds(profile: Profile, process: Process) -> Iterator[_Kind]:
    named: dict[tuple[str, str], list[Activity]] = {}
    for activity in profile.activities:
        if activity.process == process.index:
            named.setdefault((activity.kind, activity.name), []).append(activity)
    yield from (_of_activities(rows) for rows in named.values())
    offset_ns = process.unix_minus_monotonic_ns
    for loop in profile.loops:
        if loop.process == process.index and loop.executed:
            yield _of_steps(loop, 0 if isinstance(offset_ns, Missing) else offset_ns)


def _of_activities(rows: Sequence[Activity]) -> _Kind:
    start_ns = np.array([row.start_ns for row in rows], dtype=np.int64)
    end_ns = np.array([row.end_ns for row in rows], dtype=np.int64)
    kept_ns = int(np.maximum(end_ns - start_ns, 0).sum())
    # An activity that has not ended is among the rows, but not in the agent's counts.
    return _Kind(
        kind=rows[0].kind,
        name=rows[0].name,
        is_step=False,
        count=max(len(rows), *(row.count for row in rows)),
        total_ns=max(kept_ns, *(row.total_ns for row in rows)),
        threads=tuple(row.thread for row in rows),
        start_ns=start_ns,
        end_ns=np.maximum(start_ns, end_ns),
    )


def _of_steps(loop: Loop, offset_ns: int) -> _Kind:
    recent = loop.recent
    return _Kind(
        kind=loop.kind,
        name=loop.name,
        is_step=True,
        count=loop.executed,
        total_ns=loop.times.sum_ns,
        threads=(loop.thread,) * len(recent.start_ns),
        start_ns=recent.start_ns + offset_ns,
        end_ns=np.maximum(recent.start_ns, recent.end_ns) + offset_ns,
    )


def _exclusive(kinds: Sequence[_Kind]) -> _Exclusive:
    """Return exclusive times; those of intervals that were not kept are estimated from the kept."""
    own_ns, inside_ns = _kept(kinds)
    times = _Exclusive([], [kind.lost_ns > 0 for kind in kinds])
    for index, kind in enumerate(kinds):
        ratio = own_ns[index] / kind.kept_ns if kind.kept_ns else 1.0
        times.own_ns.append(own_ns[index] + kind.lost_ns * ratio)
    for index, kind in enumerate(kinds):
        if kind.lost_ns:
            _take_out(times, kinds, kind.lost_ns, inside_ns[index])
    return times


def _take_out(times: _Exclusive, kinds: Sequence[_Kind], lost_ns: int, inside: Int64s) -> None:
    """Subtract intervals that were not kept from the kinds around the kept ones, in proportion.

    Kinds that lost intervals themselves are skipped: they are scaled from their kept ones already.
    """
    total_ns = int(inside.sum())
    for parent in np.flatnonzero(inside).tolist():
        part_ns = lost_ns * int(inside[parent]) / total_ns
        if parent == len(kinds):
            times.lost_outermost_ns += part_ns
        elif not kinds[parent].lost_ns:
            times.own_ns[parent] = max(times.own_ns[parent] - part_ns, 0.0)
            times.is_estimate[parent] = True


def _kept(kinds: Sequence[_Kind]) -> tuple[Int64s, Int64s]:
    """Return the exclusive time of the kept intervals of each kind, and the time inside each other.

    The last column of the second array is the time inside none.
    """
    kind = np.repeat(np.arange(len(kinds)), [len(row.start_ns) for row in kinds])
    thread = _numbered(name for row in kinds for name in row.threads)
    start_ns = _joined(row.start_ns for row in kinds)
    end_ns = _joined(row.end_ns for row in kinds)
    own_ns = np.zeros(len(kinds), dtype=np.int64)
    inside_ns = np.zeros((len(kinds), len(kinds) + 1), dtype=np.int64)
    for number in np.unique(thread):
        here = np.flatnonzero(thread == number)
        nested = nest(start_ns[here], end_ns[here])
        parents = np.where(nested.parent < 0, len(kinds), kind[here][nested.parent])
        np.add.at(own_ns, kind[here], nested.own_ns)
        np.add.at(inside_ns, (kind[here], parents), end_ns[here] - start_ns[here])
    return own_ns, inside_ns


def _numbered(names: Iterable[str]) -> Int64s:
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(name, len(numbers)) for name in names], dtype=np.int64)


def _joined(columns: Iterable[Int64s]) -> Int64s:
    return np.concatenate([np.empty(0, dtype=np.int64), *columns])


def _elsewhere_ns(wall_ns: int | Missing, kinds: Sequence[_Kind], lost_ns: float) -> int | Missing:
    if isinstance(wall_ns, Missing):
        return wall_ns
    covered = union(
        _joined(kind.start_ns for kind in kinds), _joined(kind.end_ns for kind in kinds)
    )
    return max(wall_ns - covered.length_ns - round(lost_ns), 0)


def _use(
    kind: _Kind, exclusive_ns: int | Missing, is_estimate: bool, wall_ns: int | Missing
) -> ActivityUse:
    return ActivityUse(
        kind=kind.kind,
        name=kind.name,
        is_step=kind.is_step,
        count=kind.count,
        total_ns=kind.total_ns,
        exclusive_ns=exclusive_ns,
        is_estimate=is_estimate,
        share_ratio=_share(exclusive_ns, wall_ns),
    )


def _share(exclusive_ns: int | Missing, wall_ns: int | Missing) -> float | Missing:
    if isinstance(exclusive_ns, Missing):
        return exclusive_ns
    return wall_ns if isinstance(wall_ns, Missing) else exclusive_ns / wall_ns


def _by_exclusive(uses: Iterable[ActivityUse]) -> tuple[ActivityUse, ...]:
    def order(use: ActivityUse) -> tuple[int, str, str]:
        exclusive_ns = use.exclusive_ns
        return (0 if isinstance(exclusive_ns, Missing) else -exclusive_ns, use.kind, use.name)

    return tuple(sorted(uses, key=order))


def _by_total(uses: Iterable[ActivityUse]) -> tuple[ActivityUse, ...]:
    return tuple(sorted(uses, key=lambda use: (-use.total_ns, use.kind, use.name)))


@dataclass(frozen=True, slots=True)
class ActivityInSteps:
    """All activities of one kind and name while steps ran: how many, their own and total time.

    `source` is the line of the job that started most of them, "" if none is known. `once_ns` is how
    much of the time of calls that run steps went to compiling in the first of them.
    """

    kind: str
    name: str
    count: int
    own_ns: int
    total_ns: int = 0
    source: str = ""
    once_ns: int = 0


def activities_in_steps(profile: Profile, item: ProcessActivities) -> tuple[ActivityInSteps, ...]:
    """Return activities by their own time, without activities inside them; longest first.

    Activities that ended before the first step or began after the last one are left out, in
    proportion where not all intervals of an activity were kept. So are evaluations after the last
    step of a training: nothing waits for them.
    """
    process = item.process.index
    loops = [loop for loop in profile.loops if loop.process == process]
    first_ns = min((loop.first_seen_ns for loop in loops if loop.first_seen_ns), default=0)
    last_ns = _last_ns(profile, loops, process)
    training = [loop for loop in loops if loop.kind not in EVALUATION_KINDS]
    trained_ns = _last_ns(profile, training, process) or last_ns
    own = [activity for activity in profile.activities if activity.process == process]
    in_steps = []
    for use in item.activities:
        if use.is_step or isinstance(use.exclusive_ns, Missing):
            continue
        same = [
            activity for activity in own if (activity.kind, activity.name) == (use.kind, use.name)
        ]
        early_count, early_ns = _before(same, first_ns)
        late_count, late_ns = _after(same, trained_ns if use.kind == _EVALUATION else last_ns)
        count, total_ns = use.count - early_count - late_count, use.total_ns - early_ns - late_ns
        left_ratio = max(total_ns, 0) / use.total_ns if use.total_ns else 0.0
        if count > 0:
            own_ns = round(use.exclusive_ns * left_ratio)
            ran = [activity for activity in same if activity.end_ns > first_ns]
            once_ns = _compiled_ns(own, ran[:1]) if use.kind in _CALLS else 0
            in_steps.append(
                ActivityInSteps(
                    use.kind, use.name, count, own_ns, max(total_ns, 0), _source(ran), once_ns
                )
            )
    return tuple(sorted(in_steps, key=lambda use: -use.own_ns))


def _compiled_ns(own: list[Activity], rows: list[Activity]) -> int:
    """Return how much of the time of some activities of a process went to compiling."""
    compiling = [activity for activity in own if activity.kind in COMPILING]
    times = union(
        np.array([activity.start_ns for activity in compiling], dtype=np.int64),
        np.array([activity.end_ns for activity in compiling], dtype=np.int64),
    )
    start_ns = np.array([row.start_ns for row in rows], dtype=np.int64)
    end_ns = np.array([row.end_ns for row in rows], dtype=np.int64)
    return int(within_ns(times, start_ns, end_ns).sum())


def _source(rows: list[Activity]) -> str:
    """Return the line that started most of these."""
    lines = Counter(f"{row.file}:{row.line}" for row in rows if row.file)
    return lines.most_common(1)[0][0] if lines else ""


def _last_ns(profile: Profile, loops: list[Loop], process: int) -> int | None:
    """Return when the last step of a process ended, in unix ns; None if that is unknown."""
    shift_ns = profile.processes[process].unix_minus_monotonic_ns
    ends = [int(loop.recent.end_ns[-1]) for loop in loops if len(loop.recent.end_ns)]
    return None if isinstance(shift_ns, Missing) or not ends else max(ends) + shift_ns


def _after(rows: list[Activity], last_ns: int | None) -> tuple[int, int]:
    """Return how many began after this time, and how long they took; counts are cumulative."""
    late = [row for row in rows if last_ns is not None and row.start_ns >= last_ns]
    rest = [row for row in rows if last_ns is None or row.start_ns < last_ns]
    (count, total_ns), (rest_count, rest_ns) = _cumulative(late), _cumulative(rest)
    return max(count - rest_count, 0), max(total_ns - rest_ns, 0)


def _before(rows: list[Activity], first_ns: int) -> tuple[int, int]:
    """Return how many ended before this time, and how long they took; counts are cumulative."""
    return _cumulative([row for row in rows if row.end_ns <= first_ns])


def _cumulative(rows: list[Activity]) -> tuple[int, int]:
    counts, totals_ns = [row.count for row in rows], [row.total_ns for row in rows]
    return max(counts, default=0), max(totals_ns, default=0)


def evaluations(profile: Profile, process: int) -> tuple[ActivityInSteps, ...]:
    """Return what modules of PyTorch were called for between updates of a training loop, by module.

    One evaluation is the calls between two updates, from the first to the last, with what the
    program does between them. Those after the last update are left out, as nothing waits for them.
    """
    loops = [loop for loop in profile.loops if loop.process == process]
    updates = [loop for loop in loops if loop.kind == "optimizer_step"]
    calls = [loop for loop in loops if loop.kind == "forward"]
    found = (_evaluation(profile, call, updates) for call in calls)
    return tuple(use for use in found if use is not None)


def _evaluation(profile: Profile, calls: Loop, updates: list[Loop]) -> ActivityInSteps | None:
    same = [loop for loop in updates if loop.thread == calls.thread and len(loop.recent.end_ns)]
    if not same or not len(calls.recent.end_ns):
        return None
    ends_ns = np.sort(np.concatenate([loop.recent.end_ns for loop in same]))
    # Calls before the oldest update on record, and behind the last one, are between no updates.
    after = np.searchsorted(ends_ns, calls.recent.start_ns)
    between = (after > 0) & (after < len(ends_ns))
    _, first, count = np.unique(after[between], return_index=True, return_counts=True)
    if not len(first):
        return None
    starts_ns, until_ns = calls.recent.start_ns[between], calls.recent.end_ns[between]
    known_ns = int((until_ns[first + count - 1] - starts_ns[first]).sum())
    # Older calls are assumed to be like those on record.
    scale = (calls.executed - int((after == len(ends_ns)).sum())) / int(between.sum())
    rows = [
        capture.called_at
        for capture in profile.captures
        if (capture.process, capture.loop) == (calls.process, calls.index) and capture.called_at
    ]
    source = Counter(rows).most_common(1)[0][0] if rows else ""
    total_ns = round(known_ns * scale)
    times = round(len(first) * scale)
    return ActivityInSteps("evaluate", calls.name, times, total_ns, total_ns, source)
