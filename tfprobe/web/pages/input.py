"""Why steps wait for input: what for, the one stage to change first, and the pipeline as a tree."""

from __future__ import annotations

from tfprobe.analysis.core import no_data_reasons
from tfprobe.analysis.input.input_verdict import LoopInput, judge
from tfprobe.analysis.input.stage_stats import PipelineUse, StageUse, is_python
from tfprobe.errors import Missing
from tfprobe.profile.profile import Loop
from tfprobe.report.documents.document import Document
from tfprobe.report.documents.input_document import loop_document as input_document
from tfprobe.web.opened import OpenRun
from tfprobe.web.pages.loop_choice import chosen_document, process_document
from tfprobe.web.params import Params

MOST_LOOPS = 100
# Of a pipeline, written by the page itself.
_OWN_FIELDS = ("stages", "blocking_path")
MOST_STAGES = 500
MOST_SOURCES = 100
MOST_PRODUCERS = 50
# What TensorFlow says of a stage that tells how it works; the rest is bookkeeping.
_FACTS = (
    "parallelism",
    "autotune",
    "deterministic",
    "batch_size",
    "cycle_length",
    "block_length",
    "shapes",
    "types",
)


def document(run: OpenRun, question: Params) -> Document:
    """Return the input of the loop of `work=`, with what other loops wait; `stages` parents first.

    Where no step of it was traced, `input` is null and `missing` says why.
    """
    loop = run.loop(question)
    judged = run.made("inputs", lambda: judge(run.profile))
    item = next((judged_input for judged_input in judged if judged_input.loop == loop), None)
    head = {
        **chosen_document(run, loop),
        "judged": [
            _other(run, judged_input)
            for judged_input in judged[:MOST_LOOPS]
            if isinstance(judged_input.loop, Loop)
        ],
    }
    if item is None:
        why = " ".join(no_data_reasons.explain(run.profile)) or "No step of this loop was traced."
        return {**head, "input": None, "missing": why}
    return {**head, "input": _input(run, item), "missing": None}


def _other(run: OpenRun, item: LoopInput) -> Document:
    assert isinstance(item.loop, Loop)
    return {
        "work": run.place(item.loop),
        "title": item.title,
        **process_document(run.profile.processes[item.loop.process]),
        "input_ratio": item.ratio,
        "level": item.level.value,
    }


def _input(run: OpenRun, item: LoopInput) -> Document:
    document = input_document(item, run.profile.processes)
    pipeline, sources, producers = document["pipeline"], document["sources"], document["producers"]
    if not isinstance(item.pipeline, Missing):
        pipeline = _pipeline(item.pipeline, document["pipeline"])
    return {
        "captures": item.captures,
        "cycle_ns": item.cycle_ns,
        "is_watched": item.is_watched,
        "wait_ns": item.wait_ns,
        "input_ratio": item.ratio,
        "level": item.level.value,
        "keeps_up": item.keeps_up,
        "remedies": document["remedies"],
        "sources": sources[:MOST_SOURCES],
        "more_sources": max(len(sources) - MOST_SOURCES, 0),
        "fed_bytes": document["fed_bytes"],
        "pipeline": pipeline,
        "producers": producers[:MOST_PRODUCERS],
        "more_producers": max(len(producers) - MOST_PRODUCERS, 0),
    }


def _pipeline(item: PipelineUse, document: Document) -> Document:
    """Return the pipeline with the stages of its document, in an order in which they can be drawn:
    each right behind its parent or what is below its elder siblings.
    """
    waited_ns = sum(use.share.total_ns for use in item.stages)
    order = _drawn(item)
    shown = order[:MOST_STAGES]
    return {
        **{
            name: value
            for name, value in document.items()
            if name not in ("stages", "blocking_path")
        },
        "captures": item.captures,
        "is_of_arrays": item.is_of_arrays,
        "blocking_path": [at for at in item.blocking_path if at in set(shown)],
        "stages": [_stage(item, at, waited_ns) for at in shown],
        "more_stages": len(order) - len(shown),
    }


def _drawn(item: PipelineUse) -> list[int]:
    waiting = [at for at, use in enumerate(item.stages) if use.stage.parent is None][::-1]
    order = []
    while waiting:
        at = waiting.pop()
        order.append(at)
        waiting.extend(reversed(item.stages[at].stage.children))
    return order


def _stage(item: PipelineUse, at: int, waited_ns: int) -> Document:
    use, steps = item.stages[at], max(item.captures, 1)
    stage = use.stage
    return {
        "at": at,
        "parent": stage.parent,
        "depth": len(stage.path),
        "name": stage.name,
        "kind": stage.kind,
        "is_async": stage.is_async,
        "iterators": stage.iterators,
        "waited_ratio": use.share.total_ns / waited_ns if waited_ns else None,
        "waited_unseen_ns": use.share.unseen_ns,
        "calls_per_step": stage.calls / steps,
        "call_ns": stage.total_ns / stage.calls if stage.calls else None,
        "longest_ns": stage.longest_ns if stage.calls else None,
        "slow_calls": stage.slow_calls,
        "self_ns_per_step": stage.self_ns / steps,
        "active_ns_per_step": use.active_ns / steps,
        "threads": len(stage.threads),
        "buffer": _buffer(use),
        "facts": {name: stage.facts[name] for name in _FACTS if name in stage.facts},
        "function_ns_per_step": use.function_ns / steps if use.functions else None,
        "ops": [
            {
                "type": op.type,
                "count_per_step": op.runs / steps,
                "ns_per_step": op.time_ns / steps,
                "is_python": is_python(op),
            }
            for op in use.ops
        ],
    }


def _buffer(use: StageUse) -> Document | None:
    """Return how full the buffer of a stage was: elements at last, and how often one was ready.

    That is null where none was seen ready: TensorFlow tells it from 2.12 on.
    """
    stage = use.stage
    if not stage.is_async:
        return None
    facts = stage.facts
    return {
        "elements": _whole(facts.get("buffered_elements")),
        "limit": _whole(facts.get("buffer_limit")),
        "ready_ratio": use.served / stage.calls if use.served else None,
    }


def _whole(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() and len(text) < 16 else None
