"""What holds memory: of each allocator at its peak and over a step, and of hosts over time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tfprobe.analysis.memory.host_memory import HostMemory, host_memory
from tfprobe.analysis.memory.memory_peak import GROUP_KEYS, GroupKey, Piece, Variable, variables
from tfprobe.analysis.memory.memory_summary import Lasting, MemorySummary, lasting, memories
from tfprobe.analysis.ops.arguments import with_parameters
from tfprobe.errors import Missing, NoAnswer
from tfprobe.profile.profile import Loop
from tfprobe.report.documents.document import Document, reasons
from tfprobe.report.documents.memory_document import allocator_document, allocator_row, host_row
from tfprobe.web.opened import OpenRun
from tfprobe.web.pages.loop_choice import Alike, alike, chosen_document, process_document
from tfprobe.web.pages.processes_hardware import Measured, on_one_axis
from tfprobe.web.params import Params

# A chart has no more points to show, and of more rows a reader looks at none.
MOST_MOMENTS = 2_000
MOST_ALLOCATORS = 256
MOST_HOLDERS = 1_000
MOST_VARIABLES = 500
# Lines in one chart; processes beyond are in the table alone.
MOST_HOSTS = 1_000
MOST_LINES = 16


def document(run: OpenRun, question: Params) -> Document:
    """Return `allocators`, that of `at=` (else the fullest) in full as `chosen`, `variables` and
    `hosts`; `by=` is what pieces are counted for.
    """
    by = _by(question)
    loop = _loop(run, question)
    found: Alike | Missing = Missing("no step has been recorded")
    if loop is not None:
        found = alike(run, loop)
    allocators = _allocators(run, found, by)
    hosts = run.made("host_memory", lambda: host_memory(run.profile))
    parts = {"allocators": allocators, "hosts": hosts}
    return {
        **({"work": None, "works": []} if loop is None else chosen_document(run, loop)),
        "by": by,
        "bys": list(GROUP_KEYS),
        **_of_allocators(run, allocators, question, loop),
        "variables": _variables(run, found, loop),
        "hosts": [] if isinstance(hosts, Missing) else [_host(host) for host in hosts[:MOST_HOSTS]],
        "over_time": None if isinstance(hosts, Missing) else _over_time(hosts),
        "more_hosts": 0 if isinstance(hosts, Missing) else max(len(hosts) - MOST_HOSTS, 0),
        "missing": reasons(parts),
    }


def _by(question: Params) -> GroupKey:
    word = question.one_of("by", GROUP_KEYS, default="op")
    return next(key for key in GROUP_KEYS if key == word)


def _loop(run: OpenRun, question: Params) -> Loop | None:
    """Return the requested loop; a run without steps still has processes with memory."""
    try:
        return run.loop(question)
    except NoAnswer:
        return None


def _allocators(
    run: OpenRun, found: Alike | Missing, by: GroupKey
) -> tuple[MemorySummary, ...] | Missing:
    if isinstance(found, Missing):
        return found
    loop = found.sampled[0].loop
    return run.made(
        ("memories", loop.kind, loop.name, by),
        lambda: memories(found.profile, found.sampled, found.origins, by, moments=MOST_MOMENTS),
    )


def _of_allocators(
    run: OpenRun, found: tuple[MemorySummary, ...] | Missing, question: Params, loop: Loop | None
) -> Document:
    if isinstance(found, Missing):
        return {"allocators": [], "more_allocators": 0, "chosen": None}
    most = len(found) - 1
    at = question.whole("at", default=-1, least=0, most=most)
    if at < 0:
        own = [
            process_memory
            for process_memory in found
            if loop is not None and process_memory.process == loop.process
        ]
        at = found.index(max(own or found, key=lambda process_memory: process_memory.peak.bytes))
    shown = [_allocator(run, number, each) for number, each in enumerate(found[:MOST_ALLOCATORS])]
    return {
        "allocators": shown,
        "more_allocators": max(len(found) - MOST_ALLOCATORS, 0),
        "chosen": _chosen(run, at, found[at]),
    }


def _allocator(run: OpenRun, at: int, summary: MemorySummary) -> Document:
    amounts = {
        "lifetime_peak_bytes": summary.lifetime_peak_bytes,
        "capacity_bytes": summary.capacity_bytes,
        "fragmentation_ratio": summary.fragmentation_ratio,
    }
    return {
        **allocator_row(summary),
        **process_document(run.profile.processes[summary.process]),
        "at": at,
        "peak_bytes": summary.peak.bytes,
        "missing": reasons(amounts),
    }


def _chosen(run: OpenRun, at: int, summary: MemorySummary) -> Document:
    document, holders = allocator_document(summary), summary.peak.holders
    peak = document["peak"]
    return {
        **_allocator(run, at, summary),
        "peak": {**peak, "holders": peak["holders"][:MOST_HOLDERS]},
        "timeline": document["timeline"],
        "program": document["program"],
        "capture": _place(run, summary),
        "more_holders": max(len(holders) - MOST_HOLDERS, 0),
        "more_holders_bytes": sum(holder.bytes for holder in holders[MOST_HOLDERS:]),
        "pieces": [_piece(piece) for piece in summary.peak.largest],
        "by_step": {
            "step": [level.step for level in summary.by_step],
            "low_bytes": [level.low_bytes for level in summary.by_step],
            "top_bytes": [level.top_bytes for level in summary.by_step],
        },
    }


def _place(run: OpenRun, found: MemorySummary) -> int | None:
    """Return the place of the peak's step among all captures of the run."""
    wanted = (found.process, found.peak.capture.file, found.peak.capture.start_ns)
    return next(
        (
            capture.index
            for capture in run.profile.captures
            if (capture.process, capture.file, capture.start_ns) == wanted
        ),
        None,
    )


def _piece(found: Piece) -> Document:
    return {
        "name": found.op or found.label,
        "op": found.op_type or None,
        "role": found.role.value,
        "bytes": found.bytes,
        "shape": found.shape or None,
    }


def _variables(run: OpenRun, found: Alike | Missing, loop: Loop | None) -> Document:
    none: Document = {
        "parameters_bytes": None,
        "optimizer_state_bytes": None,
        "list": [],
        "more": 0,
    }
    if isinstance(found, Missing) or loop is None:
        return none | {"missing": found.reason if isinstance(found, Missing) else "no work"}
    nodes = with_parameters(found.sampled[0]).graph.nodes
    sizes: Lasting | Missing = run.made(
        ("lasting", loop.kind, loop.name), lambda: lasting(found.sampled)
    )
    if isinstance(sizes, Missing):
        return none | {"missing": sizes.reason}
    every = run.made(("variables", loop.kind, loop.name), lambda: variables(nodes))
    return {
        "parameters_bytes": sizes.parameters_bytes,
        "optimizer_state_bytes": sizes.optimizer_state_bytes,
        "list": [_variable(variable) for variable in every[:MOST_VARIABLES]],
        "more": max(len(every) - MOST_VARIABLES, 0),
    }


def _variable(found: Variable) -> Document:
    return {
        "name": found.name,
        "role": found.role.value,
        "parameters": found.parameters,
        "bytes": found.bytes or None,
    }


def _host(host: HostMemory) -> Document:
    return {
        **host_row(host),
        **process_document(host.process),
        "last_bytes": int(host.resident_bytes[-1]),
        "missing": reasons({"limit_bytes": host.limit_bytes}),
    }


def _over_time(found: Sequence[HostMemory]) -> Document:
    """Return the levels of the processes with the highest peaks over the time of all."""
    largest = sorted(found, key=lambda host: -host.peak_bytes)[:MOST_LINES]
    drawn = sorted(largest, key=lambda host: host.process.index)
    measured = [Measured(host.at_ns, host.resident_bytes.astype(np.float64)) for host in drawn]
    at_ns, values = on_one_axis(measured, most=MOST_MOMENTS)
    first_ns = min(int(host.at_ns[0]) for host in found)
    return {
        "after_ns": [moment_ns - first_ns for moment_ns in at_ns],
        "lines": [
            {**process_document(each.process), "resident_bytes": _whole(line)}
            for each, line in zip(drawn, values, strict=True)
        ],
        "more": len(found) - len(drawn),
    }


def _whole(line: Sequence[float | None]) -> list[int | None]:
    return [None if value is None else int(value) for value in line]
