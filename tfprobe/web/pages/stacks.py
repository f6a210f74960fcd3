"""What Python ran, as read from outside: call trees of phases, steps and threads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tfprobe.analysis.system.stack_lines import without_importers
from tfprobe.analysis.system.stack_samples import CallTree, ProcessTrees, StackCall, process_trees
from tfprobe.errors import Missing, UsageError
from tfprobe.profile.activities import StackSamples
from tfprobe.report.documents.document import Document
from tfprobe.web.opened import OpenRun
from tfprobe.web.params import Params

MOST_THREADS = 16
MOST_PROCESSES = 1_000
# A narrower call cannot be seen.
LEAST_RATIO = 0.005
# A flame graph is walked by recursion.
MOST_DEPTH = 250


def document(run: OpenRun, question: Params) -> Document:
    """Return all processes that were sampled, and the trees of one: `process` is its place there.

    A tree lacks calls of less than LEAST_RATIO of it.
    """
    trees = run.made("stacks", lambda: process_trees(run.profile))
    at = question.whole("process", default=0)
    if at and at >= len(trees):
        raise UsageError(f"There is no process {at:,}; {len(trees):,} were sampled.")
    return {
        "processes": [_head(sampled) for sampled in trees[:MOST_PROCESSES]],
        "process": at,
        "parts": list(_parts(trees[at])) if trees else [],
        "refusals": _refusals(run.profile.stacks),
        "missing": None if trees else "it was recorded without `tfprobe run --stacks`",
    }


def _refusals(stacks: Sequence[StackSamples]) -> list[str]:
    return list(dict.fromkeys(text for stack in stacks for text in stack.refusals))


def _head(each: ProcessTrees) -> Document:
    stacks = each.stacks
    least, most = stacks.rates_per_s
    return {
        "name": f"{each.process.host} · {each.process.label}",
        "samples": stacks.count,
        "errors": sum(chunk.errors for chunk in stacks.chunks),
        "sampled_ns": stacks.lasted_ns,
        "least_rate_per_s": least,
        "most_rate_per_s": most,
    }


def _parts(each: ProcessTrees) -> Iterator[Document]:
    phases = () if isinstance(each.phases, Missing) else each.phases
    steps = () if isinstance(each.steps, Missing) else each.steps
    for kind, parts in (("phase", phases), ("steps", steps)):
        for part in parts:
            yield {"kind": kind, "name": part.name, **_tree(part.tree)}
    for thread in each.threads[:MOST_THREADS]:
        name = f"{thread.thread.name or 'thread'} ({thread.thread.id})"
        yield {"kind": "thread", "name": name, **_tree(thread.tree)}


def _tree(tree: CallTree) -> Document:
    least_ns = LEAST_RATIO * tree.total_ns
    calls = without_importers(tree).calls
    return {
        "total_ns": tree.total_ns,
        "samples": tree.samples,
        "no_python_ns": tree.no_python_ns,
        "calls": [_call(call, least_ns, 1) for call in calls if call.total_ns >= least_ns],
    }


def _call(call: StackCall, least_ns: float, depth: int) -> Document:
    below = [child for child in call.calls if child.total_ns >= least_ns and depth < MOST_DEPTH]
    return {
        "function": call.frame.function,
        "file": call.frame.file,
        "line": call.frame.line,
        "total_ns": call.total_ns,
        "self_ns": call.self_ns,
        "calls": [_call(child, least_ns, depth + 1) for child in below],
    }
