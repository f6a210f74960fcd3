"""Collect the results of the analysis that rules look at, process by process."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tfprobe.analysis.account.account import Account, process_accounts
from tfprobe.analysis.account.categories import Category
from tfprobe.analysis.breakdown.cycles import LoopParts, parts_by_loop
from tfprobe.analysis.breakdown.inside_lines import inside_lines, loader_calls
from tfprobe.analysis.breakdown.python_lines import gap_python, tensor_reads, waits_source
from tfprobe.analysis.core.main_loop import fills_queue
from tfprobe.analysis.core.names import is_pytorch
from tfprobe.analysis.core.releases import release_of
from tfprobe.analysis.distributed.rank_parts import rank_steps
from tfprobe.analysis.distributed.slow_ranks import Straggler, slow_ranks
from tfprobe.analysis.input.input_verdict import LoopInput, judge
from tfprobe.analysis.input.step_input import StepInput, step_input
from tfprobe.analysis.memory.allocator_levels import DeviceMemory, device_memories
from tfprobe.analysis.memory.program_memory import kept_twice
from tfprobe.analysis.ops import graph_costs
from tfprobe.analysis.ops.device_ops import data_layout, precision
from tfprobe.analysis.ops.step_ops import StepOps, step_ops
from tfprobe.analysis.steps.cycle_shares import cycle_shares, save_source
from tfprobe.analysis.steps.loop_timing import LoopTiming, loop_timings
from tfprobe.analysis.steps.recent_steps import recording_overhead
from tfprobe.analysis.steps.recompilations import break_sites, recompilations
from tfprobe.analysis.steps.unexpected_steps import unexpected_steps
from tfprobe.analysis.system.application import (
    ActivityInSteps,
    ProcessActivities,
    activities,
    activities_in_steps,
    evaluations,
)
from tfprobe.analysis.system.machine_use import machine_use
from tfprobe.analysis.system.thread_times import foreign_python_line, step_threads
from tfprobe.analysis.transfers.bus_transfers import step_copies
from tfprobe.errors import Missing
from tfprobe.findings.finding import Subject
from tfprobe.findings.rule import (
    NO_CAPTURE,
    NOT_CHECKED,
    LoopAnalysis,
    ProcessAnalysis,
    RunAnalysis,
    TracedStep,
)
from tfprobe.findings.thresholds import Thresholds
from tfprobe.profile.capture_tables import Place
from tfprobe.profile.graph import TracedLoop, is_of_library
from tfprobe.profile.profile import GRADIENT_KIND, JAX_KINDS, Capture, Loop, Process, Profile

_NS_PER_US = 1000
# A device that steps run on, as TensorFlow names it; those of the host are no accelerators.
_DEVICE = re.compile(r"device:(?!(?:XLA_)?CPU:)[A-Z_]+:\d+", re.IGNORECASE)
_Key = tuple[int, int]


def analyse(profile: Profile, traced: Iterable[TracedLoop], limits: Thresholds) -> RunAnalysis:
    """Return the analysis of a run. `traced` are loops of it joined with graphs and code."""
    return merge((analyse_processes(profile, traced, limits),), slow_ranks(rank_steps(profile)))


def merge(parts: Sequence[RunAnalysis], slow: Sequence[Straggler]) -> RunAnalysis:
    """Return the analysis of a run whose processes are those of the parts, in this order.

    `slow` are the slow processes of the run, by their place among all.
    """
    slow_in = {(straggler.process, straggler.loop): straggler for straggler in slow}
    loops = tuple(
        replace(loop, key=key, slow=slow_in.get((key[0], f"{loop.timing.kind} {loop.timing.name}")))
        for key, loop in _keyed(parts)
    )
    processes = tuple(process for part in parts for process in part.processes)
    times_ns = [part.longest_traced_ns for part in parts if part.longest_traced_ns is not None]
    return RunAnalysis(processes, loops, max(times_ns, default=None))


def _keyed(parts: Sequence[RunAnalysis]) -> Iterator[tuple[_Key, LoopAnalysis]]:
    first = 0
    for part in parts:
        for loop in part.loops:
            process, index = loop.key
            yield (first + process, index), loop
        first += len(part.processes)


def with_costliest_loop(parts: Sequence[RunAnalysis]) -> int | None:
    """Return the part with the loop to join with its graph and code; None where no step was traced.

    It is the loop that `traced_steps.costliest_loop` takes of the whole run.
    """
    times_ns = [-1 if part.longest_traced_ns is None else part.longest_traced_ns for part in parts]
    longest_ns = max(times_ns, default=-1)
    return None if longest_ns < 0 else times_ns.index(longest_ns)


@dataclass(frozen=True, slots=True)
class _Results:
    """Results for all loops of some processes, by process and number of the loop."""

    profile: Profile
    limits: Thresholds
    timings: Mapping[_Key, LoopTiming]
    traced: Mapping[_Key, TracedLoop]
    cycles: Mapping[_Key, LoopParts]
    inputs: Mapping[_Key, LoopInput]


def analyse_processes(
    profile: Profile,
    traced: Iterable[TracedLoop],
    limits: Thresholds,
    *,
    cycles: Sequence[LoopParts] | None = None,
    did: Sequence[ProcessActivities] | None = None,
    known_accounts: Sequence[Account | Missing] | None = None,
) -> RunAnalysis:
    """Return the analysis of the processes of a profile, without what they are to each other.

    `traced` are loops of it joined with graphs and code. `cycles` are those of its loops, `did` is
    what its processes did, `known_accounts` are their accounts, where these are known already.
    """
    cycles = parts_by_loop(profile) if cycles is None else cycles
    results = _Results(
        profile=profile,
        limits=limits,
        timings=loop_timings(profile),
        traced={_key(loop.loop): loop for loop in traced},
        cycles={_key(cycle.loop): cycle for cycle in cycles if isinstance(cycle.loop, Loop)},
        inputs={
            _key(taken.loop): taken
            for taken in judge(profile, loops=cycles)
            if isinstance(taken.loop, Loop)
        },
    )
    memory = device_memories(profile)
    processes = tuple(
        _process(results, process, account, memory.get(process.process.index, ()))
        for process, account in zip(
            activities(profile) if did is None else did,
            process_accounts(profile, cycles) if known_accounts is None else known_accounts,
            strict=True,
        )
    )
    loops = tuple(
        _loop(results, loop, processes[loop.process])
        for loop in profile.loops
        if _key(loop) in results.timings and not _helps(results, loop)
    )
    return RunAnalysis(processes, loops, _longest_traced_ns(profile))


def _longest_traced_ns(profile: Profile) -> int | None:
    traced = {(capture.process, capture.loop) for capture in profile.captures}
    times_ns = [loop.times.sum_ns for loop in profile.loops if _key(loop) in traced]
    return max(times_ns, default=None)


def _key(loop: Loop) -> _Key:
    return loop.process, loop.index


def _helps(results: _Results, loop: Loop) -> bool:
    """Say whether a loop only fills a queue for others of its process.

    Its time costs something only where the others wait for it, and that shows in their results. A
    thread that waits for a full queue, or for the GIL, would be accused otherwise.
    """
    return fills_queue(loop) and any(
        other.process == loop.process and _key(other) in results.timings and not fills_queue(other)
        for other in results.profile.loops
    )


def _is_main(results: _Results, loop: Loop) -> bool:
    """Say whether a loop takes most time of those of its process that do more than help it."""
    keys = [
        _key(other)
        for other in results.profile.loops
        if other.process == loop.process
        and _key(other) in results.timings
        and not _helps(results, other)
    ]
    return _key(loop) == max(keys, key=lambda key: results.timings[key].loop_ns)


def _process(
    results: _Results,
    did: ProcessActivities,
    account: Account | Missing,
    memory: tuple[DeviceMemory, ...],
) -> ProcessAnalysis:
    profile, process = results.profile, did.process
    overhead = recording_overhead(process, profile.loops)
    threads_ns = (
        timing.thread_ns for key, timing in results.timings.items() if key[0] == process.index
    )
    own_loops = [loop for loop in profile.loops if loop.process == process.index]
    return ProcessAnalysis(
        subject=_subject(process),
        overhead_ns=overhead
        if isinstance(overhead, Missing)
        else overhead.traced_ns + overhead.hook_ns,
        wall_ns=0 if isinstance(overhead, Missing) else overhead.wall_ns,
        settings=process.settings,
        activities=(
            *(with_own_line(activity, account) for activity in activities_in_steps(profile, did)),
            *evaluations(profile, process.index),
        ),
        machine=machine_use(profile, process.index),
        device_memory=memory,
        has_accelerator=has_accelerator(process),
        loop_ns=max(threads_ns, default=0),
        group=process.group,
        release=release_of(process.tensorflow),
        account=account if isinstance(account, Missing) else replace(account, strip=None),
        own_profiler=process.own_profiler,
        threads=step_threads(profile, process.index),
        trains=any(loop.kind == "optimizer_step" for loop in own_loops),
        recompiled=recompilations(profile, process.index) if profile.compilations else (),
        breaks=break_sites(profile, process.index) if profile.graph_breaks else (),
        is_of_jax=bool(own_loops)
        and all(loop.queue is not None or loop.kind in JAX_KINDS for loop in own_loops),
        runs_jax_eagerly=any(
            loop.kind == GRADIENT_KIND and _key(loop) in results.timings and _is_main(results, loop)
            for loop in own_loops
        ),
        functions=frozenset(loop.name for loop in own_loops if loop.kind == "function"),
        ppid=process.ppid,
    )


def with_own_line(activity: ActivityInSteps, account: Account | Missing) -> ActivityInSteps:
    """Return callbacks with the line of the job's own method, where a gap with it was watched."""
    if activity.kind != "callbacks" or isinstance(account, Missing):
        return activity
    method = activity.name.rpartition(".")[2]
    items = (*account.items(Category.CALLBACKS), *account.items(Category.EPOCH_ENDS))
    own = (
        item.source
        for item in items
        if item.what == method and item.source and not is_of_library(item.source)
    )
    return replace(activity, source=next(own, activity.source))


def _subject(process: Process) -> Subject:
    return Subject(process.host, process.pid or None, process.rank, program=process.title)


def has_accelerator(process: Process) -> bool:
    """Say whether the process has a device other than those of the host."""
    if isinstance(process.devices, Missing):
        return False
    return any(_DEVICE.search(name) for name in process.devices)


def _loop(results: _Results, loop: Loop, process: ProcessAnalysis) -> LoopAnalysis:
    profile, key = results.profile, _key(loop)
    captures = tuple(
        capture
        for capture in profile.captures
        if capture.process == loop.process and capture.loop == loop.index
    )
    outliers = unexpected_steps(profile, loop)
    found = LoopAnalysis(
        subject=replace(process.subject, kind=loop.kind, name=loop.name),
        process=process,
        timing=results.timings[key]
        if isinstance(outliers, Missing)
        else results.timings[key].without(outliers.known_step_ns, outliers.known_gap_ns),
        key=key,
        is_main=_is_main(results, loop),
        outliers=outliers,
        reads=tensor_reads(profile, loop),
        waits_source=waits_source(profile, loop),
        python=gap_python(profile, loop),
        input=_input(results, key),
    )
    return _with_traced_steps(found, results, captures) if captures else found


def _input(results: _Results, key: _Key) -> StepInput | Missing:
    if key not in results.inputs:
        return NO_CAPTURE
    line = foreign_python_line(results.profile, key[0])
    return step_input(results.inputs[key], results.profile, foreign_line=line)


def _with_traced_steps(
    loop: LoopAnalysis, results: _Results, captures: tuple[Capture, ...]
) -> LoopAnalysis:
    """Add the results that come from the traced steps of a loop."""
    profile, key = results.profile, loop.key
    own = profile.only(captures)
    rows = own.executions
    cycle, traced = results.cycles.get(key), results.traced.get(key)
    has_kernels = bool((rows.place != Place.HOST).any())
    joined = () if traced is None else (traced,)
    tiny_ns = results.limits.tiny_op_us * _NS_PER_US
    of_pytorch = is_pytorch(rows)
    if of_pytorch:
        loop = _with_python(loop, profile, captures)
    found = replace(
        loop,
        traced_steps=_traced_steps(profile, captures),
        is_pytorch=of_pytorch,
        parts=NO_CAPTURE if cycle is None else cycle_shares(cycle, loop.timing),
        called_at=_called_at(captures),
        save_source="" if cycle is None else save_source(cycle),
        ops=step_ops(rows, own.captures, tiny_ns=tiny_ns),
        copies=step_copies(own, joined) if has_kernels else (),
        layout=data_layout(rows, len(captures), traced) if has_kernels else None,
        precision=precision(rows, len(captures)) if has_kernels else None,
    )
    if traced is None:
        return replace(found, scopes=NOT_CHECKED, lines=NOT_CHECKED)
    return replace(
        found,
        scopes=graph_costs.costliest_scopes(traced),
        lines=graph_costs.costliest_lines(traced),
        ops_source=graph_costs.main_source_line(traced),
        repeated_source=_repeated_source(found.ops, traced),
        nodes=graph_costs.computing_nodes(traced),
        dense_gradients=graph_costs.dense_gradients(traced),
        one_hot_products=graph_costs.one_hot_products(traced),
        graph_loop=graph_costs.graph_loop(traced, tiny_ns=tiny_ns),
        double_precision=graph_costs.double_precision(traced),
        kept_twice=kept_twice(traced.programs) if traced.programs else None,
    )


def _with_python(
    loop: LoopAnalysis, profile: Profile, captures: tuple[Capture, ...]
) -> LoopAnalysis:
    """Add what functions of the job do inside the traced steps of a loop of PyTorch."""
    loader = loader_calls(profile, captures)
    return replace(
        loop,
        inside=inside_lines(profile, captures, loop.timing.usual_step_ns),
        loader={key: ns // len(captures) for key, ns in loader.items()},
    )


def _repeated_source(ops: StepOps | Missing, traced: TracedLoop) -> str:
    """Return the line of the job whose ops a loop calls."""
    if isinstance(ops, Missing) or ops.repeated is None:
        return ""
    return graph_costs.source_line(traced, ops.repeated.node)


def _called_at(captures: tuple[Capture, ...]) -> str:
    """Return the line that ran most of the traced steps."""
    lines = Counter(capture.called_at for capture in captures if capture.called_at)
    return lines.most_common(1)[0][0] if lines else ""


def _traced_steps(profile: Profile, captures: tuple[Capture, ...]) -> tuple[TracedStep, ...]:
    folders = {process.index: f"{process.host}/{process.folder}" for process in profile.processes}
    return tuple(
        TracedStep(capture.step, f"{folders[capture.process]}/captures/{capture.file}")
        for capture in captures
    )
