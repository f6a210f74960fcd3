"""Render sampled stacks: a tree of calls for each phase or thread."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType

from tfprobe.analysis.system.stack_lines import StackSummary, is_of_program, without_importers
from tfprobe.analysis.system.stack_samples import CallTree, ProcessTrees, StackCall
from tfprobe.errors import Missing
from tfprobe.printable import printable
from tfprobe.profile.activities import SampledFrame, StackSamples
from tfprobe.report.format import numbers, page

# A call whose own time is a smaller share of the tree only passes its time on, and is not shown.
_OWN_RATIO = 0.01
_RATIO_WIDTH = 7


def render_stacks(
    trees: Sequence[ProcessTrees],
    *,
    by_thread: bool,
    least_ratio: float,
    width: int,
    colour: bool,
) -> str:
    """Return the page of `tfprobe stacks`, without calls below `least_ratio` of their tree."""
    parts = _parts(trees, by_thread=by_thread, least_ratio=least_ratio)
    return page.render(parts, width=width, colour=colour)


def stacks_summary(summaries: Sequence[StackSummary]) -> Iterator[RenderableType]:
    """Yield the line of the report; nothing if stacks were not sampled."""
    text = sentence(summaries)
    if text:
        yield page.paragraph(text)


def sentence(summaries: Sequence[StackSummary]) -> str:
    """Return the hottest lines of the process that was sampled longest, or ""."""
    if not summaries:
        return ""
    longest = max(summaries, key=lambda summary: summary.lasted_ns)
    if not longest.samples:
        reasons = longest.refusals or ("no stack was read",)
        return f"stacks: none; {printable(reasons[0])}"
    whose = f" of {longest.where}" if len(summaries) > 1 else ""
    rate = _rate(longest.least_rate_per_s, longest.most_rate_per_s)
    text = f"stacks{whose}: {_samples(longest.samples)} of {numbers.duration(longest.lasted_ns)}"
    hot = "; ".join(
        f"{numbers.percent(each.ratio)} {_hot(each.line, each.innermost)}"
        for each in longest.hottest
    )
    return f"{text} at {rate}; hottest: {hot or 'nothing'}"


def _hot(line: SampledFrame, innermost: SampledFrame) -> str:
    if line == innermost:
        return _place(line)
    return f"{_place(line)} (in {printable(innermost.function)}, {_place(innermost)})"


def _parts(
    trees: Sequence[ProcessTrees], *, by_thread: bool, least_ratio: float
) -> Iterator[RenderableType]:
    for at, tree in enumerate(trees):
        if at:
            yield page.blank()
        yield page.heading(f"{tree.process.host} · {tree.process.label}")
        yield page.paragraph(counted(tree.stacks))
        for reason in tree.stacks.refusals:
            yield page.paragraph(f"not all could be read: {reason}")
        yield from _threads(tree, least_ratio) if by_thread else _phases(tree, least_ratio)


def counted(stacks: StackSamples) -> str:
    """Return the number of samples, their total time, and their rate."""
    errors = sum(chunk.errors for chunk in stacks.chunks)
    threads = "1 thread" if len(stacks.threads) == 1 else f"{len(stacks.threads)} threads"
    text = f"{_samples(stacks.count)} of {numbers.duration(stacks.lasted_ns)}"
    text += f" at {_rate(*stacks.rates_per_s)}, {threads}"
    if errors:
        text += f"; {numbers.count(errors)} more failed, because the process ran on meanwhile"
    return text


def _phases(each: ProcessTrees, least_ratio: float) -> Iterator[RenderableType]:
    if isinstance(each.phases, Missing):
        yield page.paragraph(f"Phases are not known: {each.phases.reason}.")
        yield from _threads(each, least_ratio)
        return
    main = "" if isinstance(each.main, Missing) else f"thread {printable(each.main.name)}"
    for part in each.phases:
        yield from _tree(part.name, main, part.tree, least_ratio)
    if isinstance(each.steps, Missing):
        yield page.blank()
        yield page.paragraph(f"Steps and gaps cannot be separated: {each.steps.reason}.")
        return
    for part in each.steps:
        yield from _tree(part.name, "warm-up and steady", part.tree, least_ratio)


def _threads(each: ProcessTrees, least_ratio: float) -> Iterator[RenderableType]:
    for part in each.threads:
        about = f"thread {part.thread.id}{', main loop' if part.is_main else ''}"
        yield from _tree(part.thread.name or "(no name)", about, part.tree, least_ratio)


def _tree(name: str, about: str, tree: CallTree, least_ratio: float) -> Iterator[RenderableType]:
    tree = without_importers(tree)
    yield page.blank()
    facts = [numbers.duration(tree.total_ns), f"about {_samples(tree.samples)}", about]
    yield page.heading(f"{printable(name)} · {' · '.join(filter(None, facts))}")
    if tree.no_python_ns >= least_ratio * tree.total_ns and tree.no_python_ns:
        yield page.line(_row(tree.no_python_ns, tree, 0, "(no Python frame)"))
    waiting = [(call, 0) for call in reversed(_shown(tree.calls, tree, least_ratio))]
    while waiting:
        call, depth = waiting.pop()
        below = _shown(call.calls, tree, least_ratio)
        if _passes_on(call, below, tree):
            waiting.append((below[0], depth))
            continue
        place = f"{printable(call.frame.function)}  {_place(call.frame)}"
        yield page.line(_row(call.total_ns, tree, depth, place))
        waiting += [(each, depth + 1) for each in reversed(below)]


def _shown(calls: Sequence[StackCall], tree: CallTree, least_ratio: float) -> list[StackCall]:
    return [call for call in calls if call.total_ns >= least_ratio * tree.total_ns]


def _passes_on(call: StackCall, below: Sequence[StackCall], tree: CallTree) -> bool:
    """Say whether a call into an installed package only passes its time on to one other call."""
    if len(below) != 1 or is_of_program(call.frame):
        return False
    return call.total_ns - below[0].total_ns < _OWN_RATIO * tree.total_ns


def _row(total_ns: int, tree: CallTree, depth: int, text: str) -> str:
    return f"{numbers.percent(total_ns / tree.total_ns):>{_RATIO_WIDTH}}  {'  ' * depth}{text}"


def _place(frame: SampledFrame) -> str:
    return f"{page.short_path(frame.file)}:{frame.line}"


def _samples(count: int) -> str:
    return "1 sample" if count == 1 else f"{numbers.count(count)} samples"


def _rate(least: int, most: int) -> str:
    return f"{most} a second" if least == most else f"{least} to {most} a second"
