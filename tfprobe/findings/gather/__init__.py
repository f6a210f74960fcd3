"""Turn the tables and views of a profile into named signals. The only reader of tables here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tfprobe.analysis.account.account import Account
from tfprobe.analysis.account.account import accounts as accounts_of
from tfprobe.analysis.breakdown.cycles import LoopParts, parts_by_loop
from tfprobe.analysis.core.main_loop import fills_queue
from tfprobe.analysis.input.input_verdict import LoopInput, judge
from tfprobe.analysis.system.application import ProcessActivities
from tfprobe.analysis.system.application import activities as did_by_process
from tfprobe.errors import Missing
from tfprobe.findings.finding import Subject
from tfprobe.findings.gather import code
from tfprobe.findings.gather.code import graph_loop
from tfprobe.findings.gather.cycles import parts, save_source, turns
from tfprobe.findings.gather.devices import copies, layout, precision, syncs
from tfprobe.findings.gather.inputs import input_of
from tfprobe.findings.gather.loops import loop_timings, outliers
from tfprobe.findings.gather.ops import is_pytorch, ops
from tfprobe.findings.gather.processes import device_memories, process_signals, python
from tfprobe.findings.signals import (
    NO_CAPTURE,
    NOT_GATHERED,
    LoopSignals,
    LoopTiming,
    OutlierSignal,
    ProcessSignals,
    Signals,
    Turns,
    WaitSample,
)
from tfprobe.findings.thresholds import Thresholds
from tfprobe.profile.capture_tables import Executions, Place
from tfprobe.profile.graph import TracedLoop
from tfprobe.profile.profile import Capture, Loop, Profile

_NS_PER_US = 1000
_Key = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known of the loops of a run, by process and number of the loop."""

    profile: Profile
    loop_timings: Mapping[_Key, LoopTiming]
    joined: Mapping[_Key, TracedLoop]
    cycles: Mapping[_Key, LoopParts]
    inputs: Mapping[_Key, LoopInput]
    limits: Thresholds


@dataclass(frozen=True, slots=True)
class SignalsPart:
    """The signals of some processes, mostly of one, as far as they can be had without the others.

    `works` are the numbers of the loops that `signals` are of. `dearest` is the sampled work with
    most time: process, number and time; None where no step was traced.
    """

    signals: Signals
    loops: tuple[_Key, ...]
    dearest: tuple[int, int, int] | None


def gather(profile: Profile, sampled: Iterable[TracedLoop], limits: Thresholds) -> Signals:
    """Return the signals of a run. `sampled` are works of it joined with graphs and code."""
    return merge((part(profile, sampled, limits),), turns(profile))


def merge(parts: Sequence[SignalsPart], met: Mapping[_Key, Turns]) -> Signals:
    """Return the signals of a run of the processes of the parts, in this order.

    `met` is what works did in the collectives in which processes meet, by their place among all
    processes and their number.
    """
    loops: list[LoopSignals] = []
    first = 0
    for each in parts:
        for (process, index), signals in zip(each.loops, each.signals.loops, strict=True):
            loops.append(replace(signals, turns=met.get((first + process, index))))
        first += len(each.signals.processes)
    processes = (process for each in parts for process in each.signals.processes)
    return Signals(tuple(processes), tuple(loops))


def attending(parts: Sequence[SignalsPart]) -> Iterator[tuple[_Key, Subject]]:
    """Give the loops of all parts, each by its place as `merge` has it, with whose it is."""
    first = 0
    for each in parts:
        for (process, index), signals in zip(each.loops, each.signals.loops, strict=True):
            yield (first + process, index), signals.subject
        first += len(each.signals.processes)


def dearest(parts: Sequence[SignalsPart]) -> int | None:
    """Return the part with the loop that is to be joined with its graph and code; None of none.

    It is the one that `ingest.sampled.dearest` takes of the whole run.
    """
    told = [(at, each.dearest[2]) for at, each in enumerate(parts) if each.dearest is not None]
    return max(told, key=lambda each: each[1])[0] if told else None


def part(
    profile: Profile,
    sampled: Iterable[TracedLoop],
    limits: Thresholds,
    loops: Sequence[LoopParts] | None = None,
    did: tuple[ProcessActivities, ...] | None = None,
    accounts: Sequence[Account | Missing] | None = None,
) -> SignalsPart:
    """Return the signals of the processes of a profile.

    `sampled` are works of it joined with graphs and code. `works` are the traced steps, `did`
    is what the processes did and `accounts` what their time went to, where that is known already.
    """
    loops = parts_by_loop(profile) if loops is None else loops
    known = _Known(
        profile=profile,
        loop_timings=loop_timings(profile),
        joined={_key(each.loop): each for each in sampled},
        cycles={_key(each.loop): each for each in loops if isinstance(each.loop, Loop)},
        inputs={
            _key(each.loop): each
            for each in judge(profile, loops=loops)
            if isinstance(each.loop, Loop)
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
            accounts_of(profile, loops) if accounts is None else accounts,
            strict=True,
        )
    )
    there = [
        loop
        for loop in profile.loops
        if _key(loop) in known.loop_timings and not _helps(known, loop)
    ]
    found = tuple(_loop(known, loop, processes[loop.process]) for loop in there)
    return SignalsPart(Signals(processes, found), tuple(map(_key, there)), _dearest(profile))


def _dearest(profile: Profile) -> tuple[int, int, int] | None:
    sampled = {(capture.process, capture.loop) for capture in profile.captures}
    loops = [loop for loop in profile.loops if _key(loop) in sampled]
    if not loops:
        return None
    most = max(loops, key=lambda loop: loop.times.sum_ns)
    return most.process, most.index, most.times.sum_ns


def _key(loop: Loop) -> _Key:
    return loop.process, loop.index


def _main(known: _Known, process: int) -> _Key:
    """Return the loop of a process that takes most time, of those that do more than help it."""
    loops = [
        loop
        for loop in known.profile.loops
        if loop.process == process and _key(loop) in known.loop_timings and not _helps(known, loop)
    ]
    return max(map(_key, loops), key=lambda key: known.loop_timings[key].loop_ns)


def _helps(known: _Known, loop: Loop) -> bool:
    """Say whether a loop only fills a queue for others of its process.

    What it takes costs something only where the others wait for it, and then they tell of it: a
    thread that is blocked by a full queue, or by Python's lock, would be accused else.
    """
    return fills_queue(loop) and any(
        other.process == loop.process
        and _key(other) in known.loop_timings
        and not fills_queue(other)
        for other in known.profile.loops
    )


def _longest_ns(known: _Known, process: int) -> int:
    return max(
        (timing.thread_ns for key, timing in known.loop_timings.items() if key[0] == process),
        default=0,
    )


def _loop(known: _Known, loop: Loop, process: ProcessSignals) -> LoopSignals:
    profile, key, owner = known.profile, _key(loop), process.subject
    captures = tuple(
        capture
        for capture in profile.captures
        if capture.process == loop.process and capture.loop == loop.index
    )
    stands_out = outliers(profile, loop)
    signals = LoopSignals(
        subject=replace(owner, kind=loop.kind, name=loop.name),
        process=process,
        timing=_regular(known.loop_timings[key], stands_out),
        is_main=key == _main(known, loop.process),
        outliers=stands_out,
        syncs=syncs(profile, loop),
        python=python(profile, loop),
        input=input_of(known.inputs[key], profile) if key in known.inputs else NO_CAPTURE,
    )
    return _with_steps(signals, known, key, captures) if captures else signals


def _regular(timing: LoopTiming, stands_out: OutlierSignal | Missing) -> LoopTiming:
    """Take out of the regular times what stands out and is known not to be the steps' own."""
    if isinstance(stands_out, Missing):
        return timing
    return replace(
        timing,
        regular_step_ns=max(timing.regular_step_ns - stands_out.known_step_ns, 0),
        regular_gap_ns=max(timing.regular_gap_ns - stands_out.known_gap_ns, 0),
    )


def _with_steps(
    signals: LoopSignals, known: _Known, key: _Key, captures: tuple[Capture, ...]
) -> LoopSignals:
    """Add what the traced steps of a loop tell."""
    profile, found = known.profile, known.joined.get(key)
    rows = of_captures(profile.executions, captures)
    cycle = known.cycles.get(key)
    known_parts = NO_CAPTURE if cycle is None else parts(cycle, signals.timing)
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
    lines = Counter(capture.called_at for capture in captures if capture.called_at)
    return lines.most_common(1)[0][0] if lines else ""


def _samples(profile: Profile, captures: tuple[Capture, ...]) -> tuple[WaitSample, ...]:
    found = []
    for capture in captures:
        process = profile.processes[capture.process]
        file = f"{process.host}/{process.folder}/captures/{capture.file}"
        found.append(WaitSample(capture.step, file))
    return tuple(found)


def of_captures(rows: Executions, captures: tuple[Capture, ...]) -> Executions:
    """Return the rows of these captures."""
    wanted = np.zeros(max((capture.index for capture in captures), default=0) + 1, dtype=np.bool_)
    wanted[[capture.index for capture in captures]] = True
    inside = rows.capture < len(wanted)
    inside[inside] = wanted[rows.capture[inside]]
    return rows.only(inside)
