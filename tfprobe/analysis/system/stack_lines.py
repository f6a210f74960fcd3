"""Say in few words what stacks tell, by the lines of the program, and write their document."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tfprobe.analysis.system.stack_samples import (
    CallTree,
    ProcessTrees,
    StackCall,
    StackPart,
    main_thread,
    of_thread,
    samples_within,
)
from tfprobe.errors import Missing
from tfprobe.profile.activities import SampledFrame, SampledThread, StackSamples
from tfprobe.profile.profile import Profile

SCHEMA = "tfprobe.stacks/1"
# Any: a JSON document, whose values are whatever the schema says.
Document = dict[str, Any]
_MOST_LINES = 3
_IMPORTER = "<frozen importlib."
# What a file of the program is not.
_INSTALLED = ("/site-packages/", "/dist-packages/", "/lib/python", "/tfprobe_agent/")


@dataclass(frozen=True, slots=True)
class HotLine:
    """A line of the program, the share of the time below it, and where most of that was spent."""

    line: SampledFrame
    innermost: SampledFrame
    ratio: float


@dataclass(frozen=True, slots=True)
class StackSummary:
    """What a report says of the stacks of a process: those of its main thread where it is known."""

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
    """Return a summary of each process that was sampled, or that could not be."""
    return tuple(_summary(profile, stack) for stack in profile.stacks)


def is_of_program(frame: SampledFrame) -> bool:
    """Say whether a frame lies in a file of the program, not in what is installed."""
    return not frame.file.startswith("<") and not any(part in frame.file for part in _INSTALLED)


def stacks_document(run: str, trees: Sequence[ProcessTrees], least_ratio: float) -> Document:
    """Return the tfprobe.stacks/1 document; calls below this share of their tree are left out."""
    return {
        "schema": SCHEMA,
        "run": run,
        "processes": [_process(tree, least_ratio) for tree in trees],
    }


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


def summary_document(each: StackSummary) -> Document:
    """Return a summary as the report's document shows it."""
    return {
        "where": each.where,
        "samples": each.samples,
        "errors": each.errors,
        "sampled_us": each.lasted_ns / 1000,
        "rate_per_s": {"least": each.least_rate_per_s, "most": each.most_rate_per_s},
        "sampler_cpu_us": each.cost_ns / 1000,
        "hottest": [
            {"line": _frame(hot.line), "innermost": _frame(hot.innermost), "ratio": hot.ratio}
            for hot in each.hottest
        ],
        "refusals": list(each.refusals),
    }


def hottest(tree: CallTree) -> tuple[HotLine, ...]:
    """Return the lines of the program with most time below them, each innermost on its stacks."""
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
    """Return a tree without the frames of importlib: what imports stands right above what it is."""
    return replace(tree, calls=tuple(_merged(_lifted(tree.calls))))


def _lifted(calls: Sequence[StackCall]) -> Iterator[StackCall]:
    for call in calls:
        if not call.frame.file.startswith(_IMPORTER):
            below = tuple(_merged(_lifted(call.calls)))
            # What importlib took itself is time of who imports.
            own_ns = call.total_ns - sum(each.total_ns for each in below)
            yield replace(call, self_ns=own_ns, calls=below)
        else:
            yield from _lifted(call.calls)


def _merged(calls: Iterator[StackCall]) -> list[StackCall]:
    """Merge calls of the same line into one, and what they call; the longest first."""
    by_frame: dict[SampledFrame, list[StackCall]] = {}
    for call in calls:
        by_frame.setdefault(call.frame, []).append(call)
    merged = [_one(each) if len(each) > 1 else each[0] for each in by_frame.values()]
    return sorted(merged, key=lambda call: (-call.total_ns, call.frame))


def _one(calls: Sequence[StackCall]) -> StackCall:
    return StackCall(
        frame=calls[0].frame,
        total_ns=sum(call.total_ns for call in calls),
        self_ns=sum(call.self_ns for call in calls),
        calls=tuple(_merged(below for call in calls for below in call.calls)),
    )


def stacks_of(tree: CallTree) -> Iterator[tuple[tuple[SampledFrame, ...], int]]:
    """Yield each stack of a tree, outermost frame first, and how long it was there."""
    waiting: list[tuple[StackCall, tuple[SampledFrame, ...]]] = [(each, ()) for each in tree.calls]
    while waiting:
        call, above = waiting.pop()
        stack = (*above, call.frame)
        if call.self_ns:
            yield stack, call.self_ns
        waiting += [(each, stack) for each in reversed(call.calls)]


def _process(each: ProcessTrees, least_ratio: float) -> Document:
    stacks = each.stacks
    least, most = stacks.rates_per_s
    return {
        "host": each.process.host,
        "pid": each.process.pid,
        "rank": each.process.rank,
        "samples": stacks.count,
        "errors": sum(chunk.errors for chunk in stacks.chunks),
        "sampled_us": stacks.lasted_ns / 1000,
        "rate_per_s": {"least": least, "most": most},
        "sampler_cpu_us": sum(chunk.cost_ns for chunk in stacks.chunks) / 1000,
        "refusals": list(stacks.refusals),
        "main_thread": _or_reason(each.main, _thread),
        "phases": _or_reason(each.phases, lambda parts: _parts(parts, least_ratio)),
        "steps": _or_reason(each.steps, lambda parts: _parts(parts, least_ratio)),
        "threads": [
            {**_thread(part.thread), "is_main": part.is_main, **_tree(part.tree, least_ratio)}
            for part in each.threads
        ],
    }


# Any: a value of whatever kind, or a reason.
def _or_reason(value: Any, written: Any) -> Any:
    return {"missing": value.reason} if isinstance(value, Missing) else written(value)


def _thread(thread: SampledThread) -> Document:
    return {"id": thread.id, "name": thread.name}


def _frame(frame: SampledFrame) -> Document:
    return {"function": frame.function, "file": frame.file, "line": frame.line}


def _parts(parts: Sequence[StackPart], least_ratio: float) -> list[Document]:
    return [{"name": part.name, **_tree(part.tree, least_ratio)} for part in parts]


def _tree(tree: CallTree, least_ratio: float) -> Document:
    return {
        "us": tree.total_ns / 1000,
        "samples": tree.samples,
        "no_python_us": tree.no_python_ns / 1000,
        "calls": [_call(call, tree.total_ns, least_ratio) for call in _of(tree, least_ratio)],
    }


def _of(tree: CallTree, least_ratio: float) -> list[StackCall]:
    return [call for call in tree.calls if call.total_ns >= least_ratio * tree.total_ns]


def _call(call: StackCall, whole_ns: int, least_ratio: float) -> Document:
    shown = [each for each in call.calls if each.total_ns >= least_ratio * whole_ns]
    return {
        **_frame(call.frame),
        "us": call.total_ns / 1000,
        "self_us": call.self_ns / 1000,
        "ratio": call.total_ns / whole_ns,
        "calls": [_call(each, whole_ns, least_ratio) for each in shown],
    }
