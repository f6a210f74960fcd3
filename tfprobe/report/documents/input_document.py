"""Write what loops wait for as parts of a document: times in ns, ratios of 1."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tfprobe.analysis.input.input_sources import InputSource, Producer
from tfprobe.analysis.input.input_verdict import LoopInput
from tfprobe.analysis.input.stage_stats import PipelineUse, StageUse
from tfprobe.analysis.ops.op_stats import OpStats
from tfprobe.errors import Missing
from tfprobe.profile.profile import Process
from tfprobe.report.documents.document import Document


def loop_document(item: LoopInput, processes: Sequence[Process]) -> Document:
    """Return the input of one loop."""
    return {
        **_loop(item, processes),
        "captures": item.captures,
        "cycle_ns": item.cycle_ns,
        "is_watched": item.is_watched,
        "wait_ns": item.wait_ns,
        "input_ratio": item.ratio,
        "level": item.level.value,
        "sources": [_source(source) for source in item.sources],
        "pipeline": _pipeline(item.pipeline),
        "fed_bytes": None if isinstance(item.fed_bytes, Missing) else item.fed_bytes,
        "producers": [_producer(producer) for producer in item.producers],
        "remedies": list(item.remedies),
    }


def _loop(item: LoopInput, processes: Sequence[Process]) -> Document:
    loop = item.loop
    if isinstance(loop, Missing):
        return {
            **dict.fromkeys(("host", "pid", "rank", "kind", "name", "thread")),
            "missing": loop.reason,
        }
    process = processes[loop.process]
    place = {"host": process.host, "pid": process.pid or None, "rank": process.rank}
    return {**place, "kind": loop.kind, "name": loop.name, "thread": loop.thread}


def _source(source: InputSource) -> Document:
    return {
        "kind": source.kind.value,
        "what": source.what,
        "file": source.file or None,
        "line": source.line if source.file else None,
        "is_between": source.is_between,
        "time_ns": source.time_ns,
        "ratio": source.ratio,
    }


def _pipeline(item: PipelineUse | Missing) -> Document:
    if isinstance(item, Missing):
        return {"missing": item.reason}
    bottleneck = item.bottleneck
    is_known = not isinstance(bottleneck, Missing)
    return {
        "wait_ns": item.wait_ns,
        "is_ahead": item.is_ahead,
        "keeps_up": item.keeps_up,
        "unseen_ratio": item.unseen_ratio,
        "bottleneck": bottleneck if is_known else None,
        "is_measured": item.is_measured,
        "blocking_path": list(item.blocking_path),
        "stages": [_stage(use) for use in item.stages],
    }


def _stage(use: StageUse) -> Document:
    stage = use.stage
    return {
        "name": stage.name,
        "kind": stage.kind,
        "path": list(stage.path),
        "parent": stage.parent,
        "is_async": stage.is_async,
        "iterators": stage.iterators,
        "calls": stage.calls,
        "slow_calls": stage.slow_calls,
        "total_ns": stage.total_ns,
        "self_ns": stage.self_ns,
        "longest_ns": stage.longest_ns,
        "active_ns": use.active_ns,
        "waited_own_ns": use.share.own_ns,
        "waited_function_ns": use.share.function_ns,
        "waited_unseen_ns": use.share.unseen_ns,
        "functions": use.functions,
        "function_ns": use.function_ns,
        "threads": list(stage.threads),
        "facts": dict(stage.facts),
        "ops": _ops(use.ops),
    }


def _ops(ops: Iterable[OpStats]) -> list[Document]:
    return [{"type": op.type, "count": op.runs, "total_ns": op.time_ns} for op in ops]


def _producer(item: Producer) -> Document:
    return {
        "thread": item.thread,
        "name": item.name,
        "steps": item.steps,
        "step_ns": item.step_ns,
        "enqueue_ratio": item.enqueue_ratio,
        "ops": _ops(item.ops),
    }
