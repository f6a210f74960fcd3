"""Write sampled stacks as documents: times in ns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tfprobe.analysis.system.stack_lines import StackSummary
from tfprobe.analysis.system.stack_samples import CallTree, ProcessTrees, StackCall, StackPart
from tfprobe.errors import Missing
from tfprobe.profile.activities import SampledFrame, SampledThread
from tfprobe.report.documents.document import Document

SCHEMA = "tfprobe.stacks/1"


def stacks_document(run: str, trees: Sequence[ProcessTrees], least_ratio: float) -> Document:
    """Return the document, tfprobe.stacks/1 when published.

    Calls below this share of their tree are left out.
    """
    return {
        "schema": SCHEMA,
        "run": run,
        "processes": [_process(tree, least_ratio) for tree in trees],
    }


def summary_document(each: StackSummary) -> Document:
    """Return a summary as the report's document shows it."""
    return {
        "where": each.where,
        "samples": each.samples,
        "errors": each.errors,
        "sampled_ns": each.lasted_ns,
        "rate_per_s": {"least": each.least_rate_per_s, "most": each.most_rate_per_s},
        "sampler_cpu_ns": each.cost_ns,
        "hottest": [
            {"line": _frame(hot.line), "innermost": _frame(hot.innermost), "ratio": hot.ratio}
            for hot in each.hottest
        ],
        "refusals": list(each.refusals),
    }


def _process(each: ProcessTrees, least_ratio: float) -> Document:
    stacks = each.stacks
    least, most = stacks.rates_per_s
    return {
        "host": each.process.host,
        "pid": each.process.pid,
        "rank": each.process.rank,
        "samples": stacks.count,
        "errors": sum(chunk.errors for chunk in stacks.chunks),
        "sampled_ns": stacks.lasted_ns,
        "rate_per_s": {"least": least, "most": most},
        "sampler_cpu_ns": sum(chunk.cost_ns for chunk in stacks.chunks),
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
        "ns": tree.total_ns,
        "samples": tree.samples,
        "no_python_ns": tree.no_python_ns,
        "calls": [_call(call, tree.total_ns, least_ratio) for call in _of(tree, least_ratio)],
    }


def _of(tree: CallTree, least_ratio: float) -> list[StackCall]:
    return [call for call in tree.calls if call.total_ns >= least_ratio * tree.total_ns]


def _call(call: StackCall, whole_ns: int, least_ratio: float) -> Document:
    shown = [child for child in call.calls if child.total_ns >= least_ratio * whole_ns]
    return {
        **_frame(call.frame),
        "ns": call.total_ns,
        "self_ns": call.self_ns,
        "ratio": call.total_ns / whole_ns,
        "calls": [_call(child, whole_ns, least_ratio) for child in shown],
    }
