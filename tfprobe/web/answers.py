"""Which document answers which question. The server and the one file ask here, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext

from tfprobe.errors import UsageError
from tfprobe.report.documents.document import Document
from tfprobe.web.opened import OpenRun
from tfprobe.web.pages import (
    compare,
    findings,
    overview,
    parts,
    processes,
    ranks,
    shares,
    stacks,
    steps,
    transfers,
    trials,
)
from tfprobe.web.pages import input as input_page
from tfprobe.web.pages.costs import code, memory, ops, scopes
from tfprobe.web.pages.costs.code import source_document
from tfprobe.web.pages.costs.scopes import graph_document
from tfprobe.web.pages.overview import header_document
from tfprobe.web.pages.timeline import ranks as timeline_ranks
from tfprobe.web.pages.timeline import slices, step_timeline
from tfprobe.web.pages.timeline.slices import search_document
from tfprobe.web.params import Params

# The name of a page's document -> what makes it, sorted by name.
ANSWERS: Mapping[str, Callable[[OpenRun, Params], Document]] = {
    "code": code.document,
    "compare": compare.document,
    "findings": findings.document,
    "graph": graph_document,
    "header": header_document,
    "input": input_page.document,
    "memory": memory.document,
    "ops": ops.document,
    "overview": overview.document,
    "parts": parts.document,
    "processes": processes.document,
    "ranks": ranks.document,
    "scopes": scopes.document,
    "shares": shares.document,
    "source": source_document,
    "stacks": stacks.document,
    "step": steps.step,
    "steps": steps.document,
    "timeline": step_timeline.document,
    "timeline-ranks": timeline_ranks.document,
    "timeline-search": search_document,
    "timeline-slice": slices.document,
    "transfers": transfers.document,
    "trials": trials.document,
}

# Those that are made of `OpenRun.early`: they wait for no capture.
EARLY: frozenset[str] = frozenset({"header", "overview", "processes", "step", "steps", "trials"})
# Those that ask two runs. They hold no lock meanwhile: others may ask the same two the other way.
OF_TWO: frozenset[str] = frozenset({"compare"})


def answer(run: OpenRun, name: str, question: Params) -> Document:
    """Return the document `name` of a run.

    Where it is made of captures, and not all of them were read, `unread` says so.

    Raises UsageError for a name or an argument that there is not, NoAnswer where the run holds no
    answer, UnreadableInput where it cannot be read.
    """
    make = check(name)
    with _lock(run, name):
        document = make(run, question)
    if name in EARLY or run.left_out is None:
        return document
    return {**document, "unread": run.left_out}


def refresh(run: OpenRun, name: str) -> None:
    """Read what is new of a run, as far as the document `name` needs it.

    Raises UsageError for a name that there is not, UnreadableInput when the run is gone.
    """
    check(name)
    (run.early if name in EARLY else run).refresh()


def check(name: str) -> Callable[[OpenRun, Params], Document]:
    """Return what makes the document `name`.

    Raises UsageError for a name that there is not.
    """
    make = ANSWERS.get(name)
    if make is None:
        raise UsageError(f"There is no page of that name; there are {', '.join(ANSWERS)}.")
    return make


def _lock(run: OpenRun, name: str) -> AbstractContextManager[object]:
    if name in OF_TWO:
        return nullcontext()
    return run.early.lock if name in EARLY else run.lock
