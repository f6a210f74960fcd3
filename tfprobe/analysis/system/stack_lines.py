"""Sum up sampled stacks by the lines of the program."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tfprobe.analysis.system.stack_samples import (
    CallTree,
    StackCall,
    main_thread,
    of_thread,
    samples_within,
)
from tfprobe.errors import Missing
from tfprobe.profile.activities import SampledFrame, StackSamples
from tfprobe.profile.profile import Profile

_MOST_LINES = 3
_IMPORTER = "<frozen importlib."
# Files that are not the program's own.
_INSTALLED = ("/site-packages/", "/dist-packages/", "/lib/python", "/tfprobe_agent/")


@dataclass(frozen=True, slots=True)
class HotLine:
    """A line of the program, its share of the time, and the line where most of that was spent."""

    line: SampledFrame
    innermost: SampledFrame
    ratio: float


@dataclass(frozen=True, slots=True)
class StackSummary:
    """A summary of the stacks of a process: of its main thread if that is known."""

    where: str
    samples: int
    errors: int
    lasted_ns: int
    least_rate_per_s: int
    most_rate_per_s: int
    cost_ns: int
    hottest: tuple[HotLine, ...]
    refusals: tuple[str, ...]


def stack_summaries(profile: Profile) -> tuple[StackSummary, ...]:
    """Return a summary of each process whose stacks were sampled, or could not be."""
    return tuple(_summary(profile, stack) for stack in profile.stacks)


def is_of_program(frame: SampledFrame) -> bool:
    """Return whether a frame is in a file of the program, not of an installed package."""
    return not frame.file.startswith("<") and not any(part in frame.file for part in _INSTALLED)


def _summary(profile: Profile, stacks: StackSamples) -> StackSummary:
    process = profile.processes[stacks.process]
    main = main_thread(profile, stacks)
    rows = None if isinstance(main, Missing) else of_thread(stacks, main)
    least, most = stacks.rates_per_s
    return StackSummary(
        where=f"{process.host} {process.label}",
        samples=stacks.count,
        errors=sum(chunk.errors for chunk in stacks.chunks),
        lasted_ns=stacks.lasted_ns,
        least_rate_per_s=least,
        most_rate_per_s=most,
        cost_ns=sum(chunk.cost_ns for chunk in stacks.chunks),
        hottest=hottest(samples_within(stacks, rows=rows)),
        refusals=stacks.refusals,
    )


def hottest(tree: CallTree) -> tuple[HotLine, ...]:
    """Return the lines of the program with the most time, each the innermost on its stacks."""
    below: dict[SampledFrame, dict[SampledFrame, int]] = defaultdict(lambda: defaultdict(int))
    for stack, self_ns in stacks_of(tree):
        own = next((frame for frame in reversed(stack) if is_of_program(frame)), stack[-1])
        below[own][stack[-1]] += self_ns
    lines = [
        HotLine(own, max(leaves, key=lambda leaf: (leaves[leaf], leaf)), total / tree.total_ns)
        for own, leaves in below.items()
        if (total := sum(leaves.values()))
    ]
    lines.sort(key=lambda line: (-line.ratio, line.line))
    return tuple(lines[:_MOST_LINES])


def without_importers(tree: CallTree) -> CallTree:
    """Return a tree without the frames of importlib: imported modules follow their importer."""
    return replace(tree, calls=tuple(_merged(_lifted(tree.calls))))


def _lifted(calls: Sequence[StackCall]) -> Iterator[StackCall]:
    for call in calls:
        if not call.frame.file.startswith(_IMPORTER):
            below = tuple(_merged(_lifted(call.calls)))
            # The time of importlib itself counts for the importer.
            own_ns = call.total_ns - sum(callee.total_ns for callee in below)
            yield replace(call, self_ns=own_ns, calls=below)
        else:
            yield from _lifted(call.calls)


def _merged(calls: Iterator[StackCall]) -> list[StackCall]:
    """Merge calls of the same line, and their callees; the longest first."""
    by_frame: dict[SampledFrame, list[StackCall]] = {}
    for call in calls:
        by_frame.setdefault(call.frame, []).append(call)
    merged = [_one(same) if len(same) > 1 else same[0] for same in by_frame.values()]
    return sorted(merged, key=lambda call: (-call.total_ns, call.frame))


def _one(calls: Sequence[StackCall]) -> StackCall:
    return StackCall(
        frame=calls[0].frame,
        total_ns=sum(call.total_ns for call in calls),
        self_ns=sum(call.self_ns for call in calls),
        calls=tuple(_merged(below for call in calls for below in call.calls)),
    )


def stacks_of(tree: CallTree) -> Iterator[tuple[tuple[SampledFrame, ...], int]]:
    """Yield each stack of a tree, outermost frame first, and its time."""
    waiting: list[tuple[StackCall, tuple[SampledFrame, ...]]] = [(call, ()) for call in tree.calls]
    while waiting:
        call, above = waiting.pop()
        stack = (*above, call.frame)
        if call.self_ns:
            yield stack, call.self_ns
        waiting += [(callee, stack) for callee in reversed(call.calls)]
