"""Merge stack samples into call trees, for any intervals: phases, steps, or the time between steps.

A stack counts for the time until another one was read of its thread. Where that time crosses at
most one border of the intervals, the part inside them counts. A stack that stays the same over
several short intervals counts completely or not at all, by the time at which it was read: how long
it lasted in each of them is not known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tfprobe.analysis.core.intervals import NONE, Intervals, joined, one, union, within_ns
from tfprobe.analysis.core.main_loop import main_loop_first
from tfprobe.analysis.steps.phases import PHASES, Life, life
from tfprobe.errors import Missing
from tfprobe.profile.activities import NO_STACK, Int64s, SampledFrame, SampledThread, StackSamples
from tfprobe.profile.profile import Process, Profile
from tfprobe.profile.tables import Flags

# The agent's wrapper around the call that is one step.
_STEP_WRAPPERS = (
    ("tfprobe_agent/core/step_wrapper.py", "step_wrapper"),
    ("tfprobe_agent/frameworks/step_wrapper.py", "step_wrapper"),
    ("tfprobe_agent/door.py", "door"),  # in older recordings
)
# Steps of these kinds last from one call to the next: no wrapper is on the stack.
_KINDS_WITHOUT_WRAPPER = frozenset({"eager", "service"})
_STEPPING = ("warm-up", "steady")


@dataclass(frozen=True, slots=True)
class StackCall:
    """A line on the stack: how long it was on it, and how long it was innermost."""

    frame: SampledFrame
    total_ns: int
    self_ns: int
    calls: tuple[StackCall, ...]


@dataclass(frozen=True, slots=True)
class CallTree:
    """Stacks of one or several threads, merged from the outermost call on, the longest first.

    `samples` is the approximate number of stacks. `no_python_ns` is time without a Python frame.
    """

    total_ns: int
    samples: int
    no_python_ns: int
    calls: tuple[StackCall, ...]


@dataclass(frozen=True, slots=True)
class StackPart:
    """The stacks of the main thread in one phase, in the steps of its loop, or between them."""

    name: str
    tree: CallTree


@dataclass(frozen=True, slots=True)
class ThreadTree:
    """The stacks of one thread over the whole run."""

    thread: SampledThread
    is_main: bool
    tree: CallTree


@dataclass(frozen=True, slots=True)
class ProcessTrees:
    """The call trees of a process. Phases are missing where its life is not known."""

    process: Process
    stacks: StackSamples
    main: SampledThread | Missing
    phases: tuple[StackPart, ...] | Missing
    steps: tuple[StackPart, ...] | Missing
    threads: tuple[ThreadTree, ...]


def process_trees(profile: Profile) -> tuple[ProcessTrees, ...]:
    """Return the call trees of each process with stack samples, in the order of processes."""
    return tuple(_of_process(profile, stack) for stack in profile.stacks if stack.chunks)


def samples_within(
    stacks: StackSamples, intervals: Intervals | None = None, *, rows: Flags | None = None
) -> CallTree:
    """Merge the stacks of these rows within these intervals (unix ns); None means all.

    Choose rows with `of_thread` and `in_step`.
    """
    weight_ns = _weights_ns(stacks, intervals)
    if rows is not None:
        weight_ns = np.where(rows, weight_ns, 0)
    by_node = np.zeros(len(stacks.callers), dtype=np.int64)
    has_stack = stacks.nodes != NO_STACK
    np.add.at(by_node, stacks.nodes[has_stack], weight_ns[has_stack])
    total_ns = int(weight_ns.sum())
    return CallTree(
        total_ns=total_ns,
        samples=_samples(stacks, weight_ns),
        no_python_ns=int(weight_ns[~has_stack].sum()),
        calls=_merged(stacks, by_node),
    )


def of_thread(stacks: StackSamples, thread: SampledThread) -> Flags:
    """Return which rows are those of a thread."""
    index = stacks.threads.index(thread) if thread in stacks.threads else -1
    return np.asarray(stacks.thread == index)


def in_step(stacks: StackSamples) -> Flags:
    """Return which rows have the step wrapper on the stack, whatever the clock says."""
    wraps = np.array([_is_step_wrapper(frame) for frame in stacks.frames], dtype=np.bool_)
    below = np.zeros(len(stacks.callers) + 1, dtype=np.bool_)
    # Callers come before their callees, and NO_STACK is the last index, which stays False.
    for node, (caller, frame) in enumerate(
        zip(stacks.callers.tolist(), stacks.frame_of.tolist(), strict=True)
    ):
        below[node] = wraps[frame] or below[caller]
    return np.asarray(below[stacks.nodes])


def main_thread(profile: Profile, stacks: StackSamples) -> SampledThread | Missing:
    """Return the thread that runs the main loop of a process; its main thread without steps."""
    loops = main_loop_first(loop for loop in profile.loops if loop.process == stacks.process)
    name = loops[0].thread if loops else "MainThread"
    named = [thread for thread in stacks.threads if name in (thread.name, str(thread.id))]
    if not named:
        return Missing(f"no stack of its main loop's thread ({name}) was read")
    lasted_ns = _weights_ns(stacks, None)
    return max(named, key=lambda thread: int(lasted_ns[of_thread(stacks, thread)].sum()))


def _of_process(profile: Profile, stacks: StackSamples) -> ProcessTrees:
    process = profile.processes[stacks.process]
    main = main_thread(profile, stacks)
    threads = [
        ThreadTree(thread, thread == main, samples_within(stacks, rows=of_thread(stacks, thread)))
        for thread in stacks.threads
    ]
    threads.sort(key=lambda thread: (not thread.is_main, -thread.tree.total_ns))
    phases: tuple[StackPart, ...] | Missing
    steps: tuple[StackPart, ...] | Missing
    if isinstance(main, Missing):
        phases = steps = main
    else:
        known = life(profile, process)
        rows = of_thread(stacks, main)
        if isinstance(known, Missing):
            phases = steps = known
        else:
            phases = tuple(_by_phase(stacks, rows, known))
            steps = _by_step(profile, stacks, rows, known)
    return ProcessTrees(process, stacks, main, phases, steps, tuple(threads))


def _by_phase(stacks: StackSamples, rows: Flags, known: Life) -> Iterator[StackPart]:
    first_ns = min(chunk.start_ns for chunk in stacks.chunks)
    last_ns = max(chunk.end_ns for chunk in stacks.chunks)
    # Stacks read before recording began or after the last sign of life belong to the outer phases.
    outside = {"start-up": one(first_ns, known.start_ns), "end": one(known.end_ns, last_ns)}
    for phase in PHASES:
        intervals = joined(_of_phases(known, (phase,)), outside.get(phase, NONE))
        tree = samples_within(stacks, intervals, rows=rows)
        if tree.total_ns:
            yield StackPart(phase, tree)


def _by_step(
    profile: Profile, stacks: StackSamples, rows: Flags, known: Life
) -> tuple[StackPart, ...] | Missing:
    loop = main_loop_first(loop for loop in profile.loops if loop.process == stacks.process)[0]
    if loop.kind in _KINDS_WITHOUT_WRAPPER:
        return Missing(f"{loop.kind} steps follow each other without a gap")
    stepping, inside = _of_phases(known, _STEPPING), in_step(stacks)
    return (
        StackPart("in steps", samples_within(stacks, stepping, rows=rows & inside)),
        StackPart("between steps", samples_within(stacks, stepping, rows=rows & ~inside)),
    )


def _of_phases(known: Life, phases: Sequence[str]) -> Intervals:
    chosen = [segment for segment in known.segments if segment.phase in phases]
    return union(
        np.array([segment.start_ns for segment in chosen], dtype=np.int64),
        np.array([segment.end_ns for segment in chosen], dtype=np.int64),
    )


def _is_step_wrapper(frame: SampledFrame) -> bool:
    function = frame.function.rpartition(".")[2]
    return any(frame.file.endswith(file) and function == name for file, name in _STEP_WRAPPERS)


def _weights_ns(stacks: StackSamples, intervals: Intervals | None) -> Int64s:
    lasted_ns = np.asarray(stacks.end_ns - stacks.start_ns)
    if intervals is None:
        return lasted_ns
    edges = np.stack([intervals.start_ns, intervals.end_ns], axis=1).ravel()
    borders = np.searchsorted(edges, stacks.end_ns, "left") - np.searchsorted(
        edges, stacks.start_ns, "right"
    )
    is_in = np.searchsorted(edges, stacks.read_ns, "right") % 2 == 1
    covered_ns = within_ns(intervals, stacks.start_ns, stacks.end_ns)
    return np.where(borders > 2, np.where(is_in, lasted_ns, 0), covered_ns)


def _samples(stacks: StackSamples, weight_ns: Int64s) -> int:
    """Return about how many stacks were read in this time, from the rate of each chunk."""
    if not stacks.chunks:
        return 0
    starts = np.array([chunk.start_ns for chunk in stacks.chunks], dtype=np.int64)
    chunk = np.maximum(np.searchsorted(starts, stacks.read_ns, "right") - 1, 0)
    size = len(starts)
    lasted_ns = np.bincount(chunk, stacks.end_ns - stacks.start_ns, size)
    weights_ns = np.bincount(chunk, weight_ns, size)
    counts = np.array([chunk.samples for chunk in stacks.chunks], dtype=np.float64)
    ratio = np.divide(weights_ns, lasted_ns, out=np.zeros(size), where=lasted_ns > 0)
    return round(float((ratio * counts).sum()))


def _merged(stacks: StackSamples, self_ns: Int64s) -> tuple[StackCall, ...]:
    """Return the tree of calls that took any time."""
    own, total = self_ns.tolist(), self_ns.tolist()
    callers, frames = stacks.callers.tolist(), stacks.frame_of.tolist()
    children: dict[int, list[StackCall]] = {}
    for node in range(len(own) - 1, -1, -1):
        if not total[node]:
            continue
        calls = sorted(children.pop(node, ()), key=lambda call: (-call.total_ns, call.frame))
        call = StackCall(stacks.frames[frames[node]], total[node], own[node], tuple(calls))
        children.setdefault(callers[node], []).append(call)
        if callers[node] != NO_STACK:
            total[callers[node]] += total[node]
    return tuple(sorted(children.get(NO_STACK, ()), key=lambda call: (-call.total_ns, call.frame)))
