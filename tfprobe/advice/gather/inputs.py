"""Gather what the steps of a work wait for, from the input view."""

from __future__ import annotations

from tfprobe.advice.signals import Input
from tfprobe.errors import Missing
from tfprobe.model.profile import Profile
from tfprobe.views.breakdown.python_lines import python_lines
from tfprobe.views.followed import followed
from tfprobe.views.input.kinds import is_source, is_wrapper
from tfprobe.views.input.sources import Kind
from tfprobe.views.input.use import PipelineUse
from tfprobe.views.input.verdict import WorkInput

_FROM_MEMORY = frozenset({"MemoryCache", "Prefetch"})
_HANDS_ON = _FROM_MEMORY | {"MemoryCacheImpl", "Repeat", "Skip", "Take"}


def input_of(item: WorkInput, profile: Profile) -> Input | Missing:
    """Return the input of a work; of several sources the dearest is named.

    Of a queue it is the dearest line between the steps of a thread that fills it.
    """
    if not item.sources:
        return Missing("its steps take no input that is known")
    source = item.sources[0]
    pipeline = item.pipeline
    stage = _bottleneck(pipeline)
    place = f"{source.file}:{source.line}" if source.file else ""
    if source.kind is Kind.QUEUE:
        place = _line_of_filler(item, profile)
    return Input(
        bottleneck=stage or source.what,
        own_ns=source.time_ns,
        iterator="" if isinstance(pipeline, Missing) else _path(pipeline),
        nodes=() if isinstance(pipeline, Missing) else _nodes(pipeline),
        advice=" ".join(item.remedies),
        source=place,
        keeps_up=item.keeps_up,
        is_measured=not stage or isinstance(pipeline, Missing) or pipeline.is_measured,
        is_whole=not isinstance(pipeline, Missing) and _is_whole(pipeline),
        may_cache=not isinstance(pipeline, Missing) and _may_cache(pipeline),
        is_ready=not isinstance(pipeline, Missing) and _is_ready(pipeline),
    )


def _line_of_filler(item: WorkInput, profile: Profile) -> str:
    threads = {(each.thread, each.name) for each in item.producers}
    fillers = {
        (each.process, each.index)
        for each in profile.works
        if (each.thread, each.name) in threads
        and not isinstance(item.work, Missing)
        and each.process == item.work.process
    }
    gaps = [gap for gap in followed(profile) if (gap.process, gap.work) in fillers]
    lines = python_lines(gaps)
    return f"{lines[0].file}:{lines[0].line}" if lines else ""


def _bottleneck(pipeline: PipelineUse | Missing) -> str:
    if isinstance(pipeline, Missing) or isinstance(pipeline.bottleneck, Missing):
        return ""
    return pipeline.stages[pipeline.bottleneck].stage.name


def _is_whole(pipeline: PipelineUse) -> bool:
    leaves = (use.stage for use in pipeline.stages if not use.stage.children)
    return all(is_source(leaf.kind) for leaf in leaves)


def _may_cache(pipeline: PipelineUse) -> bool:
    names = {use.stage.name for use in pipeline.stages}
    return names.isdisjoint({"ForeverRepeat", "Generator"})


def _is_ready(pipeline: PipelineUse) -> bool:
    """Say whether elements come from memory, prefetched, and nothing on the way changes them."""
    kinds = set(_nodes(pipeline))
    return _FROM_MEMORY <= kinds <= _HANDS_ON


def _path(pipeline: PipelineUse) -> str:
    if isinstance(pipeline.bottleneck, Missing):
        return ""
    return "::".join(pipeline.stages[pipeline.bottleneck].stage.path)


def _nodes(pipeline: PipelineUse) -> tuple[str, ...]:
    """Return the kinds of the stages that somebody wrote, those nearer to the step first."""
    if pipeline.is_of_arrays:
        return ()
    ordered = sorted(pipeline.stages, key=lambda use: len(use.stage.path))
    written = (use.stage.kind for use in ordered if not is_wrapper(use.stage.kind))
    return tuple(written)
