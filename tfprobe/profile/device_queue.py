"""Steps of PyTorch that a device still runs when their calls return.

Calls of PyTorch only queue kernels, and nothing notes where a program waits for them. But a traced
step says how long the device is busy with one. A device that has begun a step takes that long for
it; a step that lasts about as long as all that is queued by then was waited for. The time between
two such steps is spread over the steps in it, which took the device equally long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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
from tfprobe.profile.tables import Int64s

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
    is_of_pytorch: Callable[[Capture], bool],
) -> tuple[tuple[Loop, ...], tuple[Capture, ...]]:
    """Return loops whose steps end when the device has run them, and their traced steps.

    Of these, `plain_ns` is then the usual time from one step to the next. Loops without a traced
    step of PyTorch that ran kernels remain as they are, as do those whose steps are over when calls
    return.
    """
    busy_ns = busy_times_ns([each for each in captures if is_of_pytorch(each)], rows)
    timed: list[Loop] = []
    usual_ns: dict[LoopKey, int] = {}
    for loop in loops:
        key = loop.process, loop.index
        is_known = key in busy_ns and loop.queue is None
        timed.append(_timed(loop, busy_ns[key]) if is_known else loop)
        if timed[-1] is not loop and len(timed[-1].recent.start_ns) > 1:
            usual_ns[key] = _usual_cycle_ns(timed[-1].recent)
    return tuple(timed), tuple(
        capture
        if isinstance(capture.loop, Missing) or (capture.process, capture.loop) not in usual_ns
        else replace(capture, plain_ns=usual_ns[capture.process, capture.loop])
        for capture in captures
    )


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


def _timed(loop: Loop, busy_ns: int) -> Loop:
    """Return a loop with steps as the device ran them; this very loop if that changes little."""
    old = loop.recent
    runs = _runs(old, busy_ns)
    finished = runs[-1].end if runs else 0
    unfinished = len(old.start_ns) - finished
    rest = old.since(old.first_step + finished)
    if unfinished and _mean_cycle_ns(rest) >= (1 - _TOLERANCE_RATIO) * busy_ns:
        # The host goes no further ahead of the device: each call waits for a place in the queue.
        runs += [
            _Run(row, row + 1, end_ns, end_ns)
            for row, end_ns in enumerate(rest.end_ns.tolist(), finished)
        ]
        unfinished = 0
    if unfinished > _MOST_UNFINISHED_RATIO * loop.executed:
        return replace(
            loop,
            recent=old.until(old.first_step),
            queue=StepQueue(loop.executed, 0.0, 0, 0, 0),
            times=_none(loop.times),
            gaps=_none(loop.gaps),
        )
    kept = old.until(old.first_step + len(old.start_ns) - unfinished)
    new = _spread(kept, runs)
    moved_ns = int(np.abs(_steps_ns(new) - _steps_ns(kept)).sum())
    if not unfinished and moved_ns < _LEAST_MOVED_RATIO * _whole_ns(kept):
        return loop
    own = [run for run in runs if not old.sampled[run.end - 1]]
    gaps_ns, left_ns = int(_gaps_ns(kept).sum()), int(_gaps_ns(new).sum())
    queue = StepQueue(
        unfinished=unfinished,
        steps_per_wait=sum(run.end - run.first for run in own) / len(own) if own else 0.0,
        waits=0,
        wait_ns=0,
        call_ns=0,
        exposed_ratio=min(left_ns / gaps_ns, 1.0) if gaps_ns else 1.0,
    )
    return replace(
        loop,
        recent=new,
        queue=queue,
        times=_like(loop.times, unfinished, _steps_ns(new)),
        gaps=_like(loop.gaps, unfinished, _gaps_ns(new)[new.has_gap]),
    )


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


def _runs(steps: RecentSteps, busy_ns: int) -> list[_Run]:
    """Return the runs of steps that end with a device at rest; the last steps may be in none."""
    starts_ns, ends_ns = steps.start_ns.tolist(), steps.end_ns.tolist()
    sampled, has_gap = steps.sampled.tolist(), steps.has_gap.tolist()
    gaps_ns = _gaps_ns(steps)[steps.has_gap]
    # A gap in which the program did not wait.
    gap_ns = int(np.quantile(gaps_ns, _SHORT_GAP)) if len(gaps_ns) else 0
    runs: list[_Run] = []
    first, free_ns = 0, 0
    for row, (start_ns, end_ns) in enumerate(zip(starts_ns, ends_ns, strict=True)):
        is_last = row + 1 == len(starts_ns) or not has_gap[row + 1]
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


def _spread(steps: RecentSteps, runs: Sequence[_Run]) -> RecentSteps:
    """Return steps with the device's time of each run in equal parts.

    A run of one step begins where it did. What a run's last step did besides remains in it.
    """
    start_ns, end_ns = steps.start_ns.copy(), steps.end_ns.copy()
    waited = np.zeros(len(start_ns), dtype=np.bool_)
    for run in runs:
        last = run.end - 1
        waited[last] = True
        if run.end - run.first > 1:
            begin_ns = int(start_ns[run.first])
            edges_ns = np.linspace(begin_ns, run.device_end_ns, run.end - run.first + 1)
            start_ns[run.first : run.end] = edges_ns[:-1].astype(np.int64)
            end_ns[run.first : run.end] = edges_ns[1:].astype(np.int64)
        end_ns[last] = run.end_ns
    return replace(steps, start_ns=start_ns, end_ns=end_ns, waited=waited)


def _steps_ns(steps: RecentSteps) -> Int64s:
    lengths: Int64s = np.maximum(steps.end_ns - steps.start_ns, 0)
    return lengths


def _gaps_ns(steps: RecentSteps) -> Int64s:
    """Return the time before each step since the one before, 0 where that is not known."""
    gaps = np.zeros(len(steps.start_ns), dtype=np.int64)
    gaps[1:] = np.maximum(steps.start_ns[1:] - steps.end_ns[:-1], 0)
    return np.where(steps.has_gap, gaps, 0)


def _whole_ns(steps: RecentSteps) -> int:
    return max(int(_steps_ns(steps).sum() + _gaps_ns(steps).sum()), 1)


def _mean_cycle_ns(steps: RecentSteps) -> float:
    return _whole_ns(steps) / len(steps.start_ns)


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
