"""Steps of PyTorch that a device still runs when their calls return.

Calls of PyTorch only queue kernels, and nothing notes where a program waits for them. But a traced
step says how long the device is busy with one. A device that has begun a step takes that long for
it; a step that lasts about as long as all that is queued by then was waited for. The time between
two such steps is spread over the steps in it, which took the device equally long.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tfprobe.errors import Missing
from tfprobe.profile.capture_tables import Executions, Place
from tfprobe.profile.profile import (
    Capture,
    Durations,
    Loop,
    RecentSteps,
    StepQueue,
    bucket_of,
)
from tfprobe.profile.tables import Flags, Int64s

# So many traced steps of a loop tell how long its steps take: the newest.
MOST_TRACED = 3
# By how much the device may be faster than in traced steps: clocks fall with the load.
_TOLERANCE_RATIO = 0.1
# With less of the time moved, steps are left as they were recorded.
_LEAST_MOVED_RATIO = 0.02
# With more of its steps unfinished, the program does not wait for the steps of a loop.
_MOST_UNFINISHED_RATIO = 0.5
# Of the gaps of a program that waits now and then in a gap, most are shorter than this one.
_SHORT_GAP = 0.25

LoopKey = tuple[int, int]


def with_device_times(
    loops: Sequence[Loop],
    captures: Sequence[Capture],
    rows: Executions,
    *,
    of_pytorch: Sequence[Capture],
) -> tuple[tuple[Loop, ...], tuple[Capture, ...]]:
    """Return loops whose steps end when the device has run them, and their traced steps.

    Of these, `plain_ns` is then the usual time from one step to the next. Loops without a traced
    step `of_pytorch` that ran kernels remain as they are, as do those whose steps are over when
    calls return. Loops that one thread runs in turn share the queue.
    """
    busy_ns = busy_times_ns(of_pytorch, rows)
    timed = list(loops)
    usual_ns: dict[LoopKey, int] = {}
    for group in _groups(loops, busy_ns):
        found = _timed([loops[at] for at in group], [busy_ns[_key(loops[at])] for at in group])
        for at, loop in zip(group, found, strict=True):
            timed[at] = loop
            if loop is not loops[at] and len(loop.recent.start_ns) > 1:
                usual_ns[_key(loop)] = _usual_cycle_ns(loop.recent)
    return tuple(timed), tuple(
        capture
        if isinstance(capture.loop, Missing) or (capture.process, capture.loop) not in usual_ns
        else replace(capture, plain_ns=usual_ns[capture.process, capture.loop])
        for capture in captures
    )


def _key(loop: Loop) -> LoopKey:
    return loop.process, loop.index


def _groups(loops: Sequence[Loop], busy_ns: Mapping[LoopKey, int]) -> Iterator[list[int]]:
    """Yield the positions of loops that share a queue: those of a thread, unless steps overlap."""
    by_thread: dict[tuple[int, str], list[int]] = {}
    for at, loop in enumerate(loops):
        if _key(loop) in busy_ns and loop.queue is None:
            by_thread.setdefault((loop.process, loop.thread), []).append(at)
    for group in by_thread.values():
        steps = _merged([loops[at].recent for at in group], [0] * len(group))
        if (steps.start_ns[1:] < steps.end_ns[:-1]).any():
            yield from ([at] for at in group)
        else:
            yield group


def with_usual_times(loops: Sequence[Loop], captures: Sequence[Capture]) -> tuple[Capture, ...]:
    """Return traced steps, those of queued loops that have no usual time with that of their loop.

    While a program has not waited for any step of a loop, the agent does not know it.
    """
    by_key = {(each.process, each.index): each for each in loops if each.queue is not None}
    found: list[Capture] = []
    for capture in captures:
        loop = (
            None
            if isinstance(capture.loop, Missing)
            else by_key.get((capture.process, capture.loop))
        )
        is_unknown = isinstance(capture.plain_ns, Missing)
        if is_unknown and loop is not None and len(loop.recent.start_ns) > MOST_TRACED:
            capture = replace(capture, plain_ns=_usual_cycle_ns(loop.recent))
        found.append(capture)
    return tuple(found)


def busy_times_ns(captures: Sequence[Capture], rows: Executions) -> dict[LoopKey, int]:
    """Return how long a device is busy with a step of each traced loop: the median, in ns.

    Loops whose steps ran nothing on a device are left out.
    """
    own = {each.index: each for each in _newest(captures)}
    of_loop: dict[LoopKey, list[int]] = {}
    for number, kernels in rows.only(rows.place != Place.HOST).by_capture():
        capture = own.get(number)
        if capture is not None and not isinstance(capture.loop, Missing):
            key = capture.process, capture.loop
            of_loop.setdefault(key, []).append(_busy_ns(kernels))
    return {key: int(np.median(times_ns)) for key, times_ns in of_loop.items()}


def _newest(captures: Sequence[Capture]) -> Iterator[Capture]:
    """Yield the latest captures of each loop."""
    seen: dict[LoopKey, int] = {}
    for capture in sorted(captures, key=lambda each: each.step, reverse=True):
        if not isinstance(capture.loop, Missing):
            key = capture.process, capture.loop
            seen[key] = seen.get(key, 0) + 1
            if seen[key] <= MOST_TRACED:
                yield capture


def _busy_ns(kernels: Executions) -> int:
    """Return how long the busiest device ran any of these rows."""
    longest_ns = 0
    for device in np.unique(kernels.device).tolist():
        own = kernels.only(kernels.device == device)
        order = np.argsort(own.start_ns, kind="stable")
        start_ns = own.start_ns[order]
        end_ns = np.maximum.accumulate(start_ns + own.duration_ns[order])
        before_ns = np.concatenate([start_ns[:1], end_ns[:-1]])
        longest_ns = max(longest_ns, int((end_ns - np.maximum(start_ns, before_ns)).sum()))
    return longest_ns


def _timed(loops: Sequence[Loop], busy_ns: Sequence[int]) -> Sequence[Loop]:
    """Return loops with steps as the device ran them; the very loops if that changes little."""
    steps = _merged([loop.recent for loop in loops], busy_ns)
    runs = _runs(steps)
    finished = runs[-1].end if runs else 0
    if finished < len(steps) and _is_full(steps, finished):
        # The host goes no further ahead of the device: each call waits for a place in the queue.
        ends_ns = steps.end_ns[finished:].tolist()
        runs += [_Run(row, row + 1, ns, ns) for row, ns in enumerate(ends_ns, finished)]
        finished = len(steps)
    start_ns, end_ns, waited = _spread(steps, runs)
    old_ns, new_ns = steps.end_ns - steps.start_ns, end_ns - start_ns
    moved_ns = int(np.abs(new_ns - old_ns)[:finished].sum())
    whole_ns = int(steps.end_ns[-1] - steps.start_ns[0]) if len(steps) else 0
    if finished == len(steps) and moved_ns < _LEAST_MOVED_RATIO * whole_ns:
        return loops
    old_gaps_ns, new_gaps_ns = (
        int(
            np.maximum(start[1:finished] - end[: max(finished - 1, 0)], 0)[
                steps.follows[1:finished]
            ].sum()
        )
        for start, end in ((steps.start_ns, steps.end_ns), (start_ns, end_ns))
    )
    waits = sum(not steps.sampled[run.end - 1] for run in runs)
    queue = StepQueue(
        unfinished=0,
        steps_per_wait=finished / waits if waits else 0.0,
        waits=0,
        wait_ns=0,
        call_ns=0,
        exposed_ratio=min(new_gaps_ns / old_gaps_ns, 1.0) if old_gaps_ns else 1.0,
    )
    found: list[Loop] = []
    for number, loop in enumerate(loops):
        own = np.flatnonzero(steps.loop[:finished] == number)
        recent = replace(
            loop.recent.until(loop.recent.first_step + len(own)),
            start_ns=start_ns[own],
            end_ns=end_ns[own],
            waited=waited[own],
        )
        found.append(_with_steps(loop, recent, queue))
    return found


def _with_steps(loop: Loop, recent: RecentSteps, queue: StepQueue) -> Loop:
    """Return a loop with these finished steps."""
    unfinished = len(loop.recent.start_ns) - len(recent.start_ns)
    if unfinished > _MOST_UNFINISHED_RATIO * loop.executed:
        return replace(
            loop,
            recent=loop.recent.until(loop.recent.first_step),
            queue=StepQueue(loop.executed, 0.0, 0, 0, 0),
            times=_none(loop.times),
            gaps=_none(loop.gaps),
        )
    return replace(
        loop,
        recent=recent,
        queue=replace(queue, unfinished=unfinished),
        times=_like(loop.times, unfinished, _steps_ns(recent)),
        gaps=_like(loop.gaps, unfinished, _gaps_ns(recent)[recent.has_gap]),
    )


@dataclass(frozen=True, slots=True)
class _Steps:
    """The steps of loops that share a queue, in the order of time; columns of one length.

    `loop` is a position among the loops, `busy_ns` how long the device is busy with the step;
    `follows` says that the step before ran on the same thread.
    """

    loop: Int64s
    start_ns: Int64s
    end_ns: Int64s
    busy_ns: Int64s
    sampled: Flags
    follows: Flags

    def __len__(self) -> int:
        return len(self.start_ns)


def _merged(parts: Sequence[RecentSteps], busy_ns: Sequence[int]) -> _Steps:
    counts = [len(part.start_ns) for part in parts]
    start_ns = np.concatenate([part.start_ns for part in parts])
    order = np.argsort(start_ns, kind="stable") if len(parts) > 1 else np.arange(len(start_ns))
    # The first step of a loop follows one of another loop.
    firsts = np.cumsum([0, *counts])[:-1][np.array(counts) > 0]
    follows = np.concatenate([part.has_gap for part in parts])
    follows[firsts] = True
    follows = follows[order]
    follows[:1] = False
    return _Steps(
        loop=np.repeat(np.arange(len(parts), dtype=np.int64), counts)[order],
        start_ns=start_ns[order],
        end_ns=np.concatenate([part.end_ns for part in parts])[order],
        busy_ns=np.repeat(np.array(busy_ns, dtype=np.int64), counts)[order],
        sampled=np.concatenate([part.sampled for part in parts])[order],
        follows=follows,
    )


def _is_full(steps: _Steps, first: int) -> bool:
    """Say whether the steps from this one on take as long as the device needs for them."""
    busy_ns = int(steps.busy_ns[first:].sum())
    return int(steps.end_ns[-1] - steps.start_ns[first]) >= (1 - _TOLERANCE_RATIO) * busy_ns


@dataclass(frozen=True, slots=True)
class _Run:
    """Rows `first` up to `end`, after which the device had nothing left to do.

    `end_ns` is when the last of these steps was over, `device_end_ns` when the device was done. The
    first is later where that step did something else.
    """

    first: int
    end: int
    end_ns: int
    device_end_ns: int


def _runs(steps: _Steps) -> list[_Run]:
    """Return the runs of steps that end with a device at rest; the last steps may be in none."""
    gaps_ns = np.maximum(steps.start_ns[1:] - steps.end_ns[:-1], 0)[steps.follows[1:]]
    # A gap in which the program did not wait.
    gap_ns = int(np.quantile(gaps_ns, _SHORT_GAP)) if len(gaps_ns) else 0
    starts_ns, sampled, follows = (
        column.tolist() for column in (steps.start_ns, steps.sampled, steps.follows)
    )
    runs: list[_Run] = []
    first, free_ns = 0, 0
    times = zip(starts_ns, steps.end_ns.tolist(), steps.busy_ns.tolist(), strict=True)
    for row, (start_ns, end_ns, busy_ns) in enumerate(times):
        is_last = row + 1 == len(starts_ns) or not follows[row + 1]
        until_ns = end_ns if is_last else max(starts_ns[row + 1], end_ns)
        done_ns = max(free_ns, start_ns) + busy_ns
        # Around a traced step, tfprobe itself waits for the device.
        is_before_traced = not is_last and sampled[row + 1]
        is_at_rest = until_ns - start_ns >= (1 - _TOLERANCE_RATIO) * (done_ns - start_ns)
        if not (sampled[row] or is_before_traced or is_at_rest):
            free_ns = done_ns
            continue
        is_alone = first == row
        waited_ns = max(end_ns, until_ns if is_alone else until_ns - gap_ns)
        over_ns = _over_ns(starts_ns[first], done_ns, end_ns, waited_ns, is_alone=is_alone)
        runs.append(_Run(first, row + 1, max(over_ns, end_ns), over_ns))
        first, free_ns = row + 1, until_ns
    return runs


def _over_ns(start_ns: int, done_ns: int, end_ns: int, waited_ns: int, *, is_alone: bool) -> int:
    """Return when the device was done with a run from `start_ns` on, about at `done_ns`.

    The call of its last step returned at `end_ns`; if the program waited after that, then until
    `waited_ns`. What lies far behind `done_ns` is no work of the device.
    """
    latest_ns = start_ns + int((1 + _TOLERANCE_RATIO) * (done_ns - start_ns))
    if is_alone:
        return min(max(done_ns, end_ns), waited_ns) if end_ns <= latest_ns else end_ns
    if waited_ns <= latest_ns:
        return waited_ns
    return end_ns if done_ns < end_ns <= latest_ns else min(done_ns, waited_ns)


def _spread(steps: _Steps, runs: Sequence[_Run]) -> tuple[Int64s, Int64s, Flags]:
    """Return starts and ends with the device's time of each run divided, and what was waited for.

    Each step gets its part by the time that the device is busy with it. A run of one step begins
    where it did. What a run's last step did besides remains in it.
    """
    start_ns, end_ns = steps.start_ns.copy(), steps.end_ns.copy()
    waited = np.zeros(len(steps), dtype=np.bool_)
    for run in runs:
        rows, last = slice(run.first, run.end), run.end - 1
        waited[last] = True
        if run.end - run.first > 1:
            begin_ns = int(start_ns[run.first])
            parts = np.cumsum(steps.busy_ns[rows]) / max(int(steps.busy_ns[rows].sum()), 1)
            edges_ns = begin_ns + (parts * (run.device_end_ns - begin_ns)).astype(np.int64)
            start_ns[run.first + 1 : run.end] = edges_ns[:-1]
            end_ns[rows] = edges_ns
        end_ns[last] = run.end_ns
    return start_ns, end_ns, waited


def _steps_ns(steps: RecentSteps) -> Int64s:
    lengths: Int64s = np.maximum(steps.end_ns - steps.start_ns, 0)
    return lengths


def _gaps_ns(steps: RecentSteps) -> Int64s:
    """Return the time before each step since the one before, 0 where that is not known."""
    gaps = np.zeros(len(steps.start_ns), dtype=np.int64)
    gaps[1:] = np.maximum(steps.start_ns[1:] - steps.end_ns[:-1], 0)
    return np.where(steps.has_gap, gaps, 0)


def _usual_cycle_ns(steps: RecentSteps) -> int:
    """Return the median time from the start of a step to that of the next, without traced ones."""
    cycles_ns = np.diff(steps.start_ns)
    plain = ~(steps.sampled[:-1] | steps.sampled[1:]) & steps.has_gap[1:]
    return int(np.median(cycles_ns[plain] if plain.any() else cycles_ns))


def _like(recorded: Durations, unfinished: int, lengths_ns: Int64s) -> Durations:
    """Return as many durations as were recorded, but the unfinished ones: all are like these."""
    known, count = len(lengths_ns), recorded.count - unfinished
    if not known or count <= 0:
        return _none(recorded)
    buckets = np.bincount(bucket_of(lengths_ns), minlength=len(recorded.buckets)).astype(np.int64)
    scaled = buckets * count // known
    scaled[int(np.argmax(buckets))] += count - int(scaled.sum())
    sum_ns = int(lengths_ns.sum())
    return Durations(
        count, sum_ns * count // known, int(lengths_ns.min()), int(lengths_ns.max()), scaled
    )


def _none(recorded: Durations) -> Durations:
    return Durations(0, 0, 0, 0, np.zeros_like(recorded.buckets))
