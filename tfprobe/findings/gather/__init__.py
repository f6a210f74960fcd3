"""Turn the tables and views of a profile into named signals. The only reader of tables here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tfprobe.analysis.account.account import Account
from tfprobe.analysis.account.account import accounts as accounts_of
from tfprobe.analysis.breakdown.cycles import WorkParts, by_work
from tfprobe.analysis.core.main_loop import fills_queue
from tfprobe.analysis.input.input_verdict import WorkInput, judge
from tfprobe.analysis.system.application import ProcessActivities
from tfprobe.analysis.system.application import activities as did_by_process
from tfprobe.errors import Missing
from tfprobe.findings.finding import Subject
from tfprobe.findings.gather import code
from tfprobe.findings.gather.code import graph_loop
from tfprobe.findings.gather.cycles import parts, save_source, turns
from tfprobe.findings.gather.devices import copies, layout, precision, syncs
from tfprobe.findings.gather.inputs import input_of
from tfprobe.findings.gather.loops import loops, outliers
from tfprobe.findings.gather.ops import is_pytorch, ops
from tfprobe.findings.gather.processes import device_memories, process_signals, python
from tfprobe.findings.signals import (
    NO_CAPTURE,
    NOT_GATHERED,
    Loop,
    OutlierSignal,
    ProcessSignals,
    Signals,
    Turns,
    WaitSample,
    WorkSignals,
)
from tfprobe.findings.thresholds import Thresholds
from tfprobe.profile.capture_tables import Executions, Place
from tfprobe.profile.graph import TracedLoop
from tfprobe.profile.profile import Capture, Profile, Work

_NS_PER_US = 1000
_Key = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known of the works of a run, by process and number of the work."""

    profile: Profile
    loops: Mapping[_Key, Loop]
    joined: Mapping[_Key, TracedLoop]
    cycles: Mapping[_Key, WorkParts]
    inputs: Mapping[_Key, WorkInput]
    limits: Thresholds


@dataclass(frozen=True, slots=True)
class SignalsPart:
    """The signals of some processes, mostly of one, as far as they can be had without the others.

    `works` are the numbers of the works that `signals` are of. `dearest` is the sampled work with
    most time: process, number and time; None where no step was traced.
    """

    signals: Signals
    works: tuple[_Key, ...]
    dearest: tuple[int, int, int] | None


def gather(profile: Profile, sampled: Iterable[TracedLoop], limits: Thresholds) -> Signals:
    """Return the signals of a run. `sampled` are works of it joined with graphs and code."""
    return merge((part(profile, sampled, limits),), turns(profile))


def merge(parts: Sequence[SignalsPart], met: Mapping[_Key, Turns]) -> Signals:
    """Return the signals of a run of the processes of the parts, in this order.

    `met` is what works did in the collectives in which processes meet, by their place among all
    processes and their number.
    """
    works: list[WorkSignals] = []
    first = 0
    for each in parts:
        for (process, index), signals in zip(each.works, each.signals.works, strict=True):
            works.append(replace(signals, turns=met.get((first + process, index))))
        first += len(each.signals.processes)
    processes = (process for each in parts for process in each.signals.processes)
    return Signals(tuple(processes), tuple(works))


def attending(parts: Sequence[SignalsPart]) -> Iterator[tuple[_Key, Subject]]:
    """Give the works of all parts, each by its place as `merge` has it, with whose it is."""
    first = 0
    for each in parts:
        for (process, index), signals in zip(each.works, each.signals.works, strict=True):
            yield (first + process, index), signals.subject
        first += len(each.signals.processes)


def dearest(parts: Sequence[SignalsPart]) -> int | None:
    """Return the part with the work that is to be joined with its graph and code; None of none.

    It is the one that `ingest.sampled.dearest` takes of the whole run.
    """
    told = [(at, each.dearest[2]) for at, each in enumerate(parts) if each.dearest is not None]
    return max(told, key=lambda each: each[1])[0] if told else None


def part(
    profile: Profile,
    sampled: Iterable[TracedLoop],
    limits: Thresholds,
    works: Sequence[WorkParts] | None = None,
    did: tuple[ProcessActivities, ...] | None = None,
    accounts: Sequence[Account | Missing] | None = None,
) -> SignalsPart:
    """Return the signals of the processes of a profile.

    `sampled` are works of it joined with graphs and code. `works` are the traced steps, `did`
    is what the processes did and `accounts` what their time went to, where that is known already.
    """
    works = by_work(profile) if works is None else works
    known = _Known(
        profile=profile,
        loops=loops(profile),
        joined={_key(each.work): each for each in sampled},
        cycles={_key(each.work): each for each in works if isinstance(each.work, Work)},
        inputs={
            _key(each.work): each
            for each in judge(profile, works=works)
            if isinstance(each.work, Work)
        },
        limits=limits,
    )
    memory = device_memories(profile)
    processes = tuple(
        process_signals(
            profile,
            each,
            memory.get(each.process.index, ()),
            account,
            loop_ns=_longest_ns(known, each.process.index),
        )
        for each, account in zip(
            did_by_process(profile) if did is None else did,
            accounts_of(profile, works) if accounts is None else accounts,
            strict=True,
        )
    )
    there = [
        work for work in profile.works if _key(work) in known.loops and not _helps(known, work)
    ]
    found = tuple(_work(known, work, processes[work.process]) for work in there)
    return SignalsPart(Signals(processes, found), tuple(map(_key, there)), _dearest(profile))


def _dearest(profile: Profile) -> tuple[int, int, int] | None:
    sampled = {(each.process, each.work) for each in profile.captures}
    works = [work for work in profile.works if _key(work) in sampled]
    if not works:
        return None
    most = max(works, key=lambda work: work.times.sum_ns)
    return most.process, most.index, most.times.sum_ns


def _key(work: Work) -> _Key:
    return work.process, work.index


def _main(known: _Known, process: int) -> _Key:
    """Return the work of a process that takes most time, of those that do more than help it."""
    works = [
        work
        for work in known.profile.works
        if work.process == process and _key(work) in known.loops and not _helps(known, work)
    ]
    return max(map(_key, works), key=lambda key: known.loops[key].work_ns)


def _helps(known: _Known, work: Work) -> bool:
    """Say whether a work only fills a queue for others of its process.

    What it takes costs something only where the others wait for it, and then they tell of it: a
    thread that is blocked by a full queue, or by Python's lock, would be accused else.
    """
    return fills_queue(work) and any(
        other.process == work.process and _key(other) in known.loops and not fills_queue(other)
        for other in known.profile.works
    )


def _longest_ns(known: _Known, process: int) -> int:
    return max(
        (loop.thread_ns for key, loop in known.loops.items() if key[0] == process), default=0
    )


def _work(known: _Known, work: Work, process: ProcessSignals) -> WorkSignals:
    profile, key, owner = known.profile, _key(work), process.subject
    captures = tuple(
        each
        for each in profile.captures
        if each.process == work.process and each.work == work.index
    )
    stands_out = outliers(profile, work)
    signals = WorkSignals(
        subject=replace(owner, kind=work.kind, name=work.name),
        process=process,
        loop=_regular(known.loops[key], stands_out),
        is_main=key == _main(known, work.process),
        outliers=stands_out,
        syncs=syncs(profile, work),
        python=python(profile, work),
        input=input_of(known.inputs[key], profile) if key in known.inputs else NO_CAPTURE,
    )
    return _with_steps(signals, known, key, captures) if captures else signals


def _regular(loop: Loop, stands_out: OutlierSignal | Missing) -> Loop:
    """Take out of the regular times what stands out and is known not to be the steps' own."""
    if isinstance(stands_out, Missing):
        return loop
    return replace(
        loop,
        regular_step_ns=max(loop.regular_step_ns - stands_out.known_step_ns, 0),
        regular_gap_ns=max(loop.regular_gap_ns - stands_out.known_gap_ns, 0),
    )


def _with_steps(
    signals: WorkSignals, known: _Known, key: _Key, captures: tuple[Capture, ...]
) -> WorkSignals:
    """Add what the traced steps of a work tell."""
    profile, found = known.profile, known.joined.get(key)
    rows = of_captures(profile.executions, captures)
    cycle = known.cycles.get(key)
    known_parts = NO_CAPTURE if cycle is None else parts(cycle, signals.loop)
    has_kernels = bool((rows.place != Place.HOST).any())
    joined = () if found is None else (found,)
    tiny_ns = known.limits.tiny_op_us * _NS_PER_US
    return replace(
        signals,
        samples=_samples(profile, captures),
        is_pytorch=is_pytorch(rows),
        parts=known_parts,
        called_at=_called_at(captures),
        save_source="" if cycle is None else save_source(cycle),
        ops=ops(rows, captures, tiny_ns=tiny_ns),
        scopes=NOT_GATHERED if found is None else code.scopes(found),
        lines=NOT_GATHERED if found is None else code.lines(found),
        ops_source="" if found is None else code.ops_source(found),
        nodes=NOT_GATHERED if found is None else code.nodes(found),
        dense=NOT_GATHERED if found is None else code.dense_gradient(found),
        one_hot=NOT_GATHERED if found is None else code.one_hot(found),
        graph_loop=NOT_GATHERED if found is None else graph_loop(found, tiny_ns=tiny_ns),
        double=NOT_GATHERED if found is None else code.double(found),
        copies=copies(profile, captures, joined) if has_kernels else (),
        layout=layout(rows, len(captures), found) if has_kernels else None,
        precision=precision(rows, len(captures)) if has_kernels else None,
    )


def _called_at(captures: tuple[Capture, ...]) -> str:
    """Return the line that ran most of the traced steps."""
    lines = Counter(each.called_at for each in captures if each.called_at)
    return lines.most_common(1)[0][0] if lines else ""


def _samples(profile: Profile, captures: tuple[Capture, ...]) -> tuple[WaitSample, ...]:
    found = []
    for each in captures:
        process = profile.processes[each.process]
        file = f"{process.host}/{process.folder}/captures/{each.file}"
        found.append(WaitSample(each.step, file))
    return tuple(found)


def of_captures(rows: Executions, captures: tuple[Capture, ...]) -> Executions:
    """Return the rows of these captures."""
    wanted = np.zeros(max((each.index for each in captures), default=0) + 1, dtype=np.bool_)
    wanted[[each.index for each in captures]] = True
    inside = rows.capture < len(wanted)
    inside[inside] = wanted[rows.capture[inside]]
    return rows.only(inside)
