"""Render why steps wait for input: the answer, what they wait for, the pipeline as a tree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.console import RenderableType

from tfprobe.analysis.input.input_sources import InputSource, Producer, SourceKind
from tfprobe.analysis.input.input_verdict import InputLevel, LoopInput
from tfprobe.analysis.input.stage_stats import (
    PipelineUse,
    StageUse,
    takes_tiny_elements,
)
from tfprobe.analysis.ops.op_stats import OpStats
from tfprobe.errors import Missing
from tfprobe.profile.profile import Process
from tfprobe.report.format import numbers, page
from tfprobe.report.format.page import TextColumn

_LEVELS: Mapping[InputLevel, str] = {
    InputLevel.HIGH: "highly input bound",
    InputLevel.MODERATE: "moderately input bound",
    InputLevel.NONE: "it does not wait for input",
}
_KINDS: Mapping[SourceKind, str] = {
    SourceKind.ITERATOR: "tf.data",
    SourceKind.QUEUE: "queue",
    SourceKind.FEED: "feed",
    SourceKind.PYTHON: "Python",
}
# Facts about how a stage works, in words; --json has the others.
_FACTS: Mapping[str, str] = {
    "parallelism": "parallel",
    "buffer_limit": "buffer",
    "buffer_size": "buffer",
    "batch_size": "batch",
    "cycle_length": "cycle",
}
# Sources with a smaller share of a cycle get no line; --json has all.
_SHOWN_RATIO = 0.005
_SHOWN_SOURCES = 5
# From here on the unobserved part of the wait is mentioned.
_UNSEEN_RATIO = 0.2


def render_input(
    loops: Sequence[LoopInput], processes: Sequence[Process], *, width: int, colour: bool
) -> str:
    """Return the page of `tfprobe input`: the loop with the most time first."""
    return page.render(_parts(loops, processes, width), width=width, colour=colour)


def _parts(
    loops: Sequence[LoopInput], processes: Sequence[Process], width: int
) -> Iterator[RenderableType]:
    for at, item in enumerate(loops):
        if at:
            yield page.blank()
        yield page.heading(_title(item, processes))
        yield page.paragraph(answer(item))
        yield from _sources(item, width)
        if not isinstance(item.pipeline, Missing):
            yield page.blank()
            yield _tree(item, item.pipeline, width)
            yield from _functions(item.pipeline)
        yield from _producers(item.producers, width)
        for sentence in item.remedies:
            yield page.paragraph(f"→ {sentence}")


def _title(item: LoopInput, processes: Sequence[Process]) -> str:
    loop = item.loop
    name = "Steps" if isinstance(loop, Missing) else f"{loop.kind} {loop.name}"
    if len(processes) > 1 and not isinstance(loop, Missing):
        name += f", {processes[loop.process].place}"
    cycle = "cycle" if item.is_watched else "step"
    count = "1 traced step" if item.captures == 1 else f"{item.captures} traced steps"
    return f"{name}: {numbers.duration(item.cycle_ns)} a {cycle}, mean of {count}"


def answer(item: LoopInput) -> str:
    """Return how much a loop waits for input, and for what, in one or two sentences."""
    what = "taking input that was ready" if item.keeps_up and item.ratio else "waiting for input"
    text = f"{numbers.percent(item.ratio)} of the time is {what}: {_LEVELS[item.level]}."
    if item.level is InputLevel.NONE or not item.sources:
        return text
    if isinstance(item.pipeline, Missing) or item.sources[0].kind is not SourceKind.ITERATOR:
        return f"{text} It waits for {_described(item.sources[0])}."
    return f"{text} {_bottleneck(item.pipeline)}"


def _described(source: InputSource) -> str:
    where = f" ({page.short_path(source.file)}:{source.line})" if source.file else ""
    return f"{_KINDS[source.kind]}: {source.what}{where}"


def _bottleneck(pipeline: PipelineUse) -> str:
    if isinstance(pipeline.bottleneck, Missing):
        return f"It waits for tf.data; {pipeline.bottleneck.reason}."
    use = pipeline.stages[pipeline.bottleneck]
    waited_ns = sum(stage.share.total_ns for stage in pipeline.stages)
    if not pipeline.is_measured:
        return f"Likely, not measured: its pipeline spends the time in {use.stage.name}."
    what = f"The bottleneck of its pipeline is {use.stage.name}"
    if not waited_ns:
        return f"{what}, the busiest stage."
    own_ns, below = use.share.total_ns, ""
    if takes_tiny_elements(pipeline.stages, pipeline.bottleneck):
        own_ns, below = _below_ns(pipeline, pipeline.bottleneck), " and what it takes from"
    text = f"{what}{below}, with {numbers.percent(own_ns / waited_ns)} of the wait"
    if use.ops:
        text += f", in {use.ops[0].type} of its function"
    if pipeline.unseen_ratio >= _UNSEEN_RATIO:
        unseen = numbers.percent(pipeline.unseen_ratio)
        text += f"; {unseen} of the wait was for calls begun before the recording"
    return f"{text}."


def _below_ns(pipeline: PipelineUse, at: int) -> int:
    path = pipeline.stages[at].stage.path
    below = [use for use in pipeline.stages if use.stage.path[: len(path)] == path]
    return sum(use.share.total_ns for use in below)


def _sources(item: LoopInput, width: int) -> Iterator[RenderableType]:
    shown = [source for source in item.sources if source.ratio >= _SHOWN_RATIO][:_SHOWN_SOURCES]
    if not shown:
        return
    columns = (
        TextColumn("waits for", is_number=False),
        TextColumn("", is_number=False, may_be_cut=True),
        TextColumn("a cycle"),
        TextColumn("share"),
        TextColumn("when", is_number=False),
        TextColumn("at", is_number=False, may_be_cut=True, may_go=True),
    )
    rows = [
        (
            _KINDS[each.kind],
            _what(item, each),
            numbers.duration(each.time_ns),
            numbers.percent(each.ratio),
            "between steps" if each.is_between else "in the step",
            f"{page.short_path(each.file)}:{each.line}" if each.file else "",
        )
        for each in shown
    ]
    yield page.table(columns, rows, width=width)


def _what(item: LoopInput, source: InputSource) -> str:
    if source.kind is SourceKind.FEED and not source.is_between and isinstance(item.fed_bytes, int):
        return f"{source.what}, {numbers.size(item.fed_bytes)}"
    return source.what


def _tree(item: LoopInput, pipeline: PipelineUse, width: int) -> RenderableType:
    columns = (
        TextColumn("pipeline", is_number=False, may_be_cut=True),
        TextColumn("of the wait"),
        TextColumn("calls a step", may_go=True),
        TextColumn("a call", may_go=True),
        TextColumn("busy per step"),
        TextColumn("threads", may_go=True),
        TextColumn("", is_number=False, may_go=True),
    )
    waited_ns = sum(use.share.total_ns for use in pipeline.stages)
    marked = None if item.level is InputLevel.NONE else pipeline.bottleneck
    rows = [_stage(pipeline, at, label, waited_ns) for at, label in _labels(pipeline, marked)]
    return page.table(columns, rows, width=width)


def _labels(pipeline: PipelineUse, marked: object) -> Iterator[tuple[int, str]]:
    """Yield the index of each stage, parents first, with its name drawn as part of a tree."""
    roots = [at for at, use in enumerate(pipeline.stages) if use.stage.parent is None]
    waiting = [(at, "", "") for at in reversed(roots)]
    while waiting:
        at, first, rest = waiting.pop()
        mark = ("▶ " if pipeline.is_measured else "? ") if at == marked else ""
        yield at, f"{first}{mark}{pipeline.stages[at].stage.name}"
        children = pipeline.stages[at].stage.children
        for child in reversed(children):
            is_last = child == children[-1]
            branch = "└ " if is_last else "├ "
            waiting.append((child, rest + branch, rest + (" " if is_last else "│")))


def _stage(pipeline: PipelineUse, at: int, label: str, waited_ns: int) -> tuple[str, ...]:
    use, steps = pipeline.stages[at], pipeline.captures or 1
    stage = use.stage
    share = numbers.percent(use.share.total_ns / waited_ns) if waited_ns else numbers.NOTHING
    return (
        label,
        share,
        numbers.plain(stage.calls / steps) if stage.calls else numbers.NOTHING,
        numbers.duration(stage.total_ns / stage.calls) if stage.calls else numbers.NOTHING,
        numbers.duration(use.active_ns / steps) if use.active_ns else numbers.NOTHING,
        str(len(stage.threads)) if stage.threads else numbers.NOTHING,
        _facts(use),
    )


def _facts(use: StageUse) -> str:
    facts = use.stage.facts
    shown = [f"{word} {facts[name]}" for name, word in _FACTS.items() if name in facts]
    if use.stage.iterators > 1:
        shown.append(f"{use.stage.iterators} iterators")
    return ", ".join(shown)


def _functions(pipeline: PipelineUse) -> Iterator[RenderableType]:
    """Yield what the functions of stages spend their time in."""
    for use in pipeline.stages:
        if use.ops:
            ops = ", ".join(_op(op, pipeline.captures or 1) for op in use.ops[:3])
            yield page.paragraph(f"{use.stage.name} runs, a step: {ops}", style="dim")


def _op(op: OpStats, steps: int) -> str:
    calls = numbers.plain(op.runs / steps)
    return f"{op.type} {numbers.duration(op.time_ns / steps)} in {calls}"


def _producers(producers: Sequence[Producer], width: int) -> Iterator[RenderableType]:
    if not producers:
        return
    columns = (
        TextColumn("fills a queue", is_number=False, may_be_cut=True),
        TextColumn("steps"),
        TextColumn("a step"),
        TextColumn("longest ops", is_number=False, may_be_cut=True),
    )
    rows = [
        (
            producer.thread,
            numbers.count(producer.steps),
            numbers.duration(producer.step_ns),
            ", ".join(op.type for op in producer.ops[:3]),
        )
        for producer in producers
    ]
    yield page.blank()
    yield page.table(columns, rows, width=width)
