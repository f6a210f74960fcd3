"""Build the rows of small tables, and those of `steps` one loop at a time."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tfprobe.analysis.account.account import Account
from tfprobe.analysis.account.ledger import AccountPart, Item
from tfprobe.analysis.system import endings
from tfprobe.errors import Missing
from tfprobe.profile.activities import (
    Call,
    DeviceSample,
    Gap,
    ResourceSample,
    ThreadTimes,
    ThreadUse,
)
from tfprobe.profile.profile import Durations, Hooks, Loop, Process, Profile
from tfprobe.query.shards import Shard
from tfprobe.query.tables.database import Array, plain
from tfprobe.query.tables.run_tables import (
    ACCELERATORS,
    PROCESS_KEY,
    RESOURCE_SAMPLES,
    TableShape,
    TableSource,
    real,
    text,
    whole,
)
from tfprobe.report.documents.run_report import Report
from tfprobe.report.documents.step_report import compilation_document, graph_break_document
from tfprobe.runs.catalogue import RunEntry
from tfprobe.runs.manifests import RunManifest

# Any, here and below: the value of a cell; None or Missing if unknown.
Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class RowPlace:
    """Where rows belong: the id of a run, and the number of a process in it."""

    run: str
    process: int


def run_row(entry: RunEntry) -> Row:
    """Return the row of `runs`."""
    facts = entry.manifest
    known = facts if isinstance(facts, RunManifest) else None
    return (
        entry.folder.id,
        str(entry.folder.root),
        shlex.join(known.command) if known else None,
        known.cwd or None if known else None,
        known.started or None if known else None,
        known.started_unix_ns if known else None,
        known.host or None if known else None,
        known.user or None if known else None,
        entry.state,
        known.tfprobe or None if known else None,
        len(entry.processes),
        entry.steps,
        entry.active_unix_ns,
        known.name or None if known else None,
        json.dumps(dict(known.tags)) if known else None,
    )


def interpreter_rows(run: str, rest: Profile) -> Iterator[Row]:
    """Yield the rows of `interpreters`."""
    for interpreter in rest.interpreters:
        yield run, interpreter.host, interpreter.pid, interpreter.version, interpreter.executable


def accelerator_rows(run: str, rest: Profile) -> Iterator[Row]:
    """Yield the rows of `accelerators`."""
    for resource_sample in rest.resource_samples:
        yield from (
            _accelerator(run, resource_sample, device) for device in resource_sample.devices
        )


def process_rows(profile: Profile, place: RowPlace) -> Iterator[Row]:
    """Yield the row of `processes`."""
    (process,) = profile.processes
    raised = process.ending.exception
    yield (
        *_key(process, place),
        process.role,
        process.folder,
        process.pid or None,
        process.port,
        process.state,
        shlex.join(process.argv) if process.argv else None,
        process.shown_program,
        process.python,
        process.tensorflow,
        process.devices,
        process.started_unix_ns or None,
        len(profile.loops),
        process.captures,
        *_costs(process.hooks),
        _settings(process.settings),
        process.ending.status,
        None if raised is None else endings.exception_line(raised),
    )


def loop_rows(profile: Profile, place: RowPlace) -> Iterator[Row]:
    """Yield the rows of `works`."""
    (process,) = profile.processes
    for loop in profile.loops:
        yield (*_key(process, place), *_loop(loop))


def activity_rows(profile: Profile, place: RowPlace) -> Iterator[Row]:
    """Yield the rows of `activities`."""
    (process,) = profile.processes
    for activity in profile.activities:
        lasted_ns = activity.end_ns - activity.start_ns
        about = (activity.kind, activity.name, activity.thread, activity.start_ns, lasted_ns)
        where = (activity.file, activity.line) if activity.file else (None, None)
        yield (*_key(process, place), *about, activity.count, activity.total_ns, *where)


def compilation_rows(profile: Profile, place: RowPlace) -> Iterator[Row]:
    """Yield the rows of `compilations`."""
    (process,) = profile.processes
    for compilation in profile.compilations:
        document = compilation_document(compilation)
        changes = document["changes"]
        yield (
            *_key(process, place),
            *(document[name] for name in _COMPILATION),
            None if changes is None else json.dumps(changes),
            document["file"],
            document["line"],
        )


def graph_break_rows(profile: Profile, place: RowPlace) -> Iterator[Row]:
    """Yield the rows of `graph_breaks`."""
    (process,) = profile.processes
    for found in profile.graph_breaks:
        yield (*_key(process, place), *graph_break_document(found).values())


def gap_rows(profile: Profile, place: RowPlace) -> Iterator[Row]:
    """Yield the rows of `gaps`."""
    (process,) = profile.processes
    for gap in profile.gaps:
        yield (
            *_key(process, place),
            gap.loop,
            gap.step,
            gap.start_ns,
            gap.duration_ns,
            gap.cost_ns,
            gap.cut,
            gap.why,
            None if isinstance(gap.cpu_ns, Missing) else gap.cpu_ns,
        )


def call_rows(profile: Profile, place: RowPlace) -> Iterator[Row]:
    """Yield the rows of `calls`."""
    (process,) = profile.processes
    for gap in profile.gaps:
        for number, call in enumerate(gap.calls):
            yield (*_key(process, place), *_call(gap, number, call))


def resource_sample_rows(profile: Profile, place: RowPlace) -> Iterator[Row]:
    """Yield the rows of `pulses`."""
    (process,) = profile.processes
    for resource_sample in profile.resource_samples:
        if resource_sample.process is not None:
            yield (
                *_key(process, place),
                *(getattr(resource_sample, name) for name in _RESOURCE_SAMPLE),
            )


def thread_rows(profile: Profile, place: RowPlace) -> Iterator[Row]:
    """Yield the rows of `thread_times`."""
    (process,) = profile.processes
    for resource_sample in profile.resource_samples:
        if resource_sample.process is not None and isinstance(
            resource_sample.thread_times, ThreadTimes
        ):
            of_resource_sample = (
                *_key(process, place),
                resource_sample.at_ns,
                resource_sample.thread_times.since_ns,
            )
            yield from (
                (*of_resource_sample, *_thread(thread))
                for thread in resource_sample.thread_times.threads
            )


OF_PROCESS: Mapping[str, Callable[[Profile, RowPlace], Iterator[Row]]] = {
    "activities": activity_rows,
    "calls": call_rows,
    "compilations": compilation_rows,
    "gaps": gap_rows,
    "graph_breaks": graph_break_rows,
    "processes": process_rows,
    "pulses": resource_sample_rows,
    "thread_times": thread_rows,
    "works": loop_rows,
}


_COMPILATION = (
    "work",
    "step",
    "name",
    "compiler",
    "start_unix_ns",
    "duration_ns",
    "trace_ns",
    "lower_ns",
    "backend_ns",
    "cached",
    "first",
    "why",
)


def _key(process: Process, place: RowPlace) -> Row:
    return place.run, place.process, process.host, process.rank


def _costs(hooks: Hooks | Missing) -> Row:
    if isinstance(hooks, Missing):
        return (None,) * 4
    return hooks.wall_ns, hooks.traced_ns, hooks.fold_ns, hooks.once_ns


def _settings(settings: Mapping[str, Any] | Missing) -> str | None:
    return None if isinstance(settings, Missing) else json.dumps(dict(settings), default=str)


def _loop(loop: Loop) -> Row:
    return (
        loop.index,
        loop.kind,
        loop.name,
        loop.thread,
        loop.executed,
        loop.raised,
        loop.count,
        loop.sampled,
        loop.retraces,
        loop.steps_per_execution,
        loop.optimizer_steps,
        loop.first_seen_ns or None,
        *_durations(loop.times),
        *_durations(loop.gaps),
    )


def _durations(times: Durations) -> Row:
    if not times.count:
        return 0, 0, None, None
    return times.count, times.sum_ns, times.min_ns, times.max_ns


def _call(gap: Gap, number: int, call: Call) -> Row:
    in_python = bool(call.file)
    return (
        gap.loop,
        gap.step,
        number,
        call.parent,
        call.function,
        call.file if in_python else None,
        call.line if in_python else None,
        call.called_line or None,
        call.count,
        call.self_ns,
    )


def _thread(use: ThreadUse) -> Row:
    stands = (use.file, use.line, use.function) if use.file else (None,) * 3
    used = (use.name or None, use.is_python, use.count, use.cpu_ns, use.runs_steps)
    return (*used, *stands, use.is_in_python)


def _accelerator(run: str, resource_sample: ResourceSample, device: DeviceSample) -> Row:
    return (
        run,
        resource_sample.host,
        resource_sample.at_ns,
        *(getattr(device, name) for name in _ACCELERATOR),
    )


# Columns have the names of the model's fields, except for the number of an accelerator.
_RESOURCE_SAMPLE = [column.name for column in RESOURCE_SAMPLES.columns[len(PROCESS_KEY) :]]
_NUMBER_OF_DEVICE = ACCELERATORS.columns.index(ACCELERATORS.named("device"))
_ACCELERATOR = ["index", *(column.name for column in ACCELERATORS.columns[_NUMBER_OF_DEVICE + 1 :])]


ACCOUNT = TableShape(
    "account",
    "What the wall time of each process went to, in parts that sum to it: docs/account.md.",
    TableSource.REPORT,
    (
        *PROCESS_KEY,
        text(
            "part", "part of the account: productive, imports, compile, input_wait ..., not_known"
        ),
        text("what", "item of the part; NULL: the rest of it"),
        text("file", "file of the job; NULL: no line is known"),
        whole("line", "line in that file"),
        whole("ns", "time; the rows of a process sum to its wall time"),
        real("ratio", "share of the wall time of the process"),
        whole(
            "samples",
            "number of traced steps or watched gaps it was derived from; NULL: measured in full",
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class ProcessAccount:
    """A process of a report with its account."""

    process: Process
    account: Account | Missing


def found_in(report: Report, shards: Iterable[Shard]) -> Mapping[Shard, ProcessAccount]:
    """Return the processes in a report, which has them in the order of the shards."""
    accounts = [
        ProcessAccount(process.process, account)
        for process, account in zip(report.processes, report.accounts, strict=True)
    ]
    found: dict[Shard, ProcessAccount] = {}
    for shard in shards:
        # By the folder alone: a process may report another host name than its folder's.
        if len(found) < len(accounts) and accounts[len(found)].process.folder == shard.folder:
            found[shard] = accounts[len(found)]
    return found


def account_rows(found: ProcessAccount, place: RowPlace) -> Iterator[Row]:
    """Yield the rows of a process; one without an account has none."""
    if not isinstance(found.account, Missing):
        yield from _of_process(found.process, found.account, place)


def _of_process(process: Process, account: Account, place: RowPlace) -> Iterator[Row]:
    wall_ns = account.wall_ns or 1
    for part in account.parts:
        for item in _items(part):
            file, _, line = item.source.rpartition(":")
            yield (
                place.run,
                place.process,
                process.host,
                process.rank,
                part.category.value,
                item.what or None,
                file or None,
                int(line) if file and line.isdigit() else None,
                item.ns,
                item.ns / wall_ns,
                item.samples or None,
            )


def _items(part: AccountPart) -> Iterator[Item]:
    """Yield the items that reports name, and the rest, which is alone if there are no items."""
    named = [item for item in part.items if item.what or item.source]
    yield from named
    rest_ns = part.ns - sum(item.ns for item in named)
    if rest_ns or not named:
        yield Item("", "", rest_ns)


def step_columns(profile: Profile, place: RowPlace) -> Iterator[Mapping[str, Array]]:
    """Yield the columns of the remembered steps of each loop."""
    (process,) = profile.processes
    shift_ns = process.unix_minus_monotonic_ns
    for loop in profile.loops:
        count = len(loop.recent.start_ns)
        if not count:
            continue
        yield {
            "run": _same_text(place.run, count),
            "process": _same(place.process, count),
            "host": _same_text(process.host, count),
            "rank": _same(process.rank, count),
            "work": _same(loop.index, count),
            **_times(loop, shift_ns),
        }


def _times(loop: Loop, shift_ns: int | Missing) -> Mapping[str, Array]:
    recent = loop.recent
    count = len(recent.start_ns)
    is_lost = isinstance(shift_ns, Missing)
    start_ns = recent.start_ns + (0 if isinstance(shift_ns, Missing) else shift_ns)
    gap_ns = np.zeros(count, dtype=np.int64)
    gap_ns[1:] = recent.start_ns[1:] - recent.end_ns[:-1]
    return {
        "step": np.arange(recent.first_step, recent.first_step + count, dtype=np.int64),
        "start_ns": np.ma.masked_array(start_ns, mask=np.full(count, is_lost)),
        "duration_ns": recent.end_ns - recent.start_ns,
        "gap_ns": np.ma.masked_array(gap_ns, mask=~recent.has_gap),
        "sampled": recent.sampled,
        "raised": recent.raised,
    }


def _same(value: int | None, count: int) -> Array:
    return np.ma.masked_array(
        np.full(count, value or 0, dtype=np.int64), mask=np.full(count, value is None)
    )


def _same_text(text: str, count: int) -> Array:
    found = np.empty(count, dtype=object)
    found[:] = plain(text)
    return found
