"""Arrange a snapshot of many runs as rows: what each process and each of its loops is doing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tfprobe.analysis.steps.recent_steps import (
    NO_STEP,
    Overhead,
    RecentStepTimes,
    busiest,
    last_end_ns,
    recording_overhead,
    step_times,
    steps_per_s,
)
from tfprobe.errors import Missing
from tfprobe.profile.activities import DeviceSample, ResourceSample
from tfprobe.profile.profile import LIVE_STATES, Loop, Problem
from tfprobe.profile.snapshots import (
    FleetSnapshot,
    LoopShares,
    ProcessSnapshot,
    RunSnapshot,
    TraceRequestState,
    WallTime,
)

ENDED = Missing("the process has ended")
NOT_SEEN = Missing("the process has not seen the request yet: it looks at its next step")
NO_COUNT = Missing("the trace request is not valid")


@dataclass(frozen=True, slots=True)
class LoopRow:
    """A loop at this moment. `count` is completed steps; times are in ns, as in ProcessRow.

    `index` is its number in the process, which trace requests use.
    """

    index: int
    kind: str
    name: str
    thread: str
    count: int
    raised: int
    sampled: int
    steps_per_s: float | Missing
    p50_ns: float | Missing
    p95_ns: float | Missing
    trend_ns: tuple[float, ...] | Missing


@dataclass(frozen=True, slots=True)
class ProcessRow:
    """A process at this moment. Times are in ns.

    `steps` are the completed steps of all loops since its start, as in every report.
    `steps_per_s`, `p50_ns`, `p95_ns` and `trend_ns` are those of its busiest kind of step, over all
    threads that run it; of nested loops, the outer one counts. Times are exact, from the latest
    1024 steps of a loop, without those that raised or were traced; `trend_ns` are medians of at
    most 24 stretches of them, newest last. `since_last_step_ns` is the time since any step ended.
    `overhead_ratio` is relative to the wall time since the start. `cpus_used` are cores between the
    last two resource samples of the process, `resident_bytes` is from the last one: both are a
    second old, or older if its steps are longer. `gpu_ratio` is the mean utilization of all
    accelerators of its machine, and `gpu_memory_bytes` their memory in use, by any process. After
    the end of the process, its rate and what is measured on the machine are Missing. `samples_left`
    steps of the latest trace request are still to be traced. `goodput_ratio` is the share of
    productive steps since the start, as in `wall_time`. `program`, `title` and `group` are those of
    the Process.
    """

    folder: str
    host: str
    pid: int
    rank: int | None
    role: str | None
    state: str
    started_unix_ns: int | Missing
    steps: int
    steps_per_s: float | Missing
    p50_ns: float | Missing
    p95_ns: float | Missing
    trend_ns: tuple[float, ...] | Missing
    since_last_step_ns: int | Missing
    overhead_ratio: float | Missing
    cpus_used: float | Missing
    resident_bytes: int | Missing
    gpu_ratio: float | Missing
    gpu_memory_bytes: int | Missing
    captures: int
    samples_left: int | Missing
    shares: LoopShares | Missing
    goodput_ratio: float | Missing
    wall_time: WallTime | Missing
    loops: tuple[LoopRow, ...]
    program: str = ""
    title: str = ""
    group: int = 0


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run at this moment, with its processes by host and start."""

    id: str
    directory: str
    command: tuple[str, ...] | Missing
    started: str | Missing
    started_unix_ns: int | Missing
    host: str | Missing
    user: str | Missing
    state: str
    processes: tuple[ProcessRow, ...]
    problems: tuple[Problem, ...]


def run_rows(look: FleetSnapshot) -> tuple[RunRow, ...]:
    """Return a row for each run, newest first."""
    return tuple(run_row(run) for run in look.runs)


def run_row(look: RunSnapshot) -> RunRow:
    """Return the row of one run."""
    run = look.run
    return RunRow(
        id=run.id,
        directory=run.directory,
        command=run.command,
        started=run.started,
        started_unix_ns=look.started_unix_ns,
        host=look.host,
        user=look.user,
        state=run.state,
        processes=tuple(_process_row(process, look.machines) for process in look.processes),
        problems=look.problems,
    )


def _process_row(look: ProcessSnapshot, machines: Sequence[ResourceSample]) -> ProcessRow:
    process, loops = look.process, look.loops
    busy = busiest(loops)
    times_of = {loop.index: step_times([loop]) for loop in loops}
    times = times_of[busy[0].index] if len(busy) == 1 else step_times(busy) if busy else NO_STEP
    cost = recording_overhead(process, loops)
    live = process.state in (*LIVE_STATES, "unknown")
    devices = devices_of(process.host, machines)
    return ProcessRow(
        folder=process.folder,
        host=process.host,
        pid=process.pid,
        rank=process.rank,
        role=process.role,
        state=process.state,
        started_unix_ns=process.started_unix_ns or Missing("process.json does not say"),
        steps=sum(loop.count for loop in loops),
        steps_per_s=_rate(busy, look.now_mono_ns) if live else ENDED,
        p50_ns=times if isinstance(times, Missing) else times.p50_ns,
        p95_ns=times if isinstance(times, Missing) else times.p95_ns,
        trend_ns=times if isinstance(times, Missing) else times.trend_ns,
        since_last_step_ns=_since_last_step(look),
        overhead_ratio=cost.fraction_ratio if isinstance(cost, Overhead) else cost,
        cpus_used=cpus_used(look.resource_samples) if live else ENDED,
        resident_bytes=resident_bytes(look.resource_samples) if live else ENDED,
        gpu_ratio=gpu_ratio(devices) if live else ENDED,
        gpu_memory_bytes=gpu_memory_bytes(devices) if live else ENDED,
        captures=process.captures,
        samples_left=_samples_left(look.request),
        shares=look.shares,
        goodput_ratio=_goodput_ratio(look.wall_time),
        wall_time=look.wall_time,
        loops=tuple(
            _loop_row(loop, times_of[loop.index], look.now_mono_ns if live else ENDED)
            for loop in loops
        ),
        program=process.program,
        title=process.title,
        group=process.group,
    )


def _goodput_ratio(found: WallTime | Missing) -> float | Missing:
    return found if isinstance(found, Missing) else found.goodput_ratio


def _loop_row(loop: Loop, times: RecentStepTimes | Missing, now_ns: int | Missing) -> LoopRow:
    return LoopRow(
        index=loop.index,
        kind=loop.kind,
        name=loop.name,
        thread=loop.thread,
        count=loop.count,
        raised=loop.raised,
        sampled=loop.sampled,
        steps_per_s=_rate((loop,), now_ns),
        p50_ns=times if isinstance(times, Missing) else times.p50_ns,
        p95_ns=times if isinstance(times, Missing) else times.p95_ns,
        trend_ns=times if isinstance(times, Missing) else times.trend_ns,
    )


def _rate(loops: Sequence[Loop], now_ns: int | Missing) -> float | Missing:
    if isinstance(now_ns, Missing):
        return now_ns
    rates = [steps_per_s(loop, now_ns) for loop in loops]
    known = [rate for rate in rates if not isinstance(rate, Missing)]
    if known:
        return sum(known)
    return next((rate for rate in rates if isinstance(rate, Missing)), NO_STEP)


def _since_last_step(look: ProcessSnapshot) -> int | Missing:
    if isinstance(look.now_mono_ns, Missing):
        return look.now_mono_ns
    last_ns = last_end_ns(look.loops)
    return NO_STEP if last_ns is None else max(look.now_mono_ns - last_ns, 0)


def _samples_left(request: TraceRequestState | Missing) -> int | Missing:
    if isinstance(request, Missing):
        return request
    if request.sequence == 0:
        return 0  # nobody has asked yet
    if request.seen != request.sequence:
        return NOT_SEEN
    return request.left if request.left >= 0 else NO_COUNT


NO_RESOURCE_SAMPLE = Missing("the process has written no resource sample yet")
ONE_SAMPLE = Missing("one sample does not give a rate")
NO_ACCELERATOR = Missing("no accelerator was sampled on its machine")


def cpus_used(resource_samples: Sequence[ResourceSample]) -> float | Missing:
    """Return how many cores a process used between its last two resource samples."""
    if not resource_samples:
        return NO_RESOURCE_SAMPLE
    used_ns = [_cpu_ns(resource_sample) for resource_sample in resource_samples[-2:]]
    for used in used_ns:
        if isinstance(used, Missing):
            return used
    known = [used for used in used_ns if not isinstance(used, Missing)]
    if len(known) < 2:
        return ONE_SAMPLE
    passed_ns = resource_samples[-1].at_ns - resource_samples[-2].at_ns
    if passed_ns <= 0 or known[1] < known[0]:
        return Missing("the last two samples contradict each other")
    return (known[1] - known[0]) / passed_ns


def resident_bytes(resource_samples: Sequence[ResourceSample]) -> int | Missing:
    """Return the memory of a process by its last resource sample."""
    return resource_samples[-1].resident_bytes if resource_samples else NO_RESOURCE_SAMPLE


def devices_of(host: str, machines: Sequence[ResourceSample]) -> tuple[DeviceSample, ...]:
    """Return the accelerators of a host by its latest sample."""
    samples = (
        resource_sample.devices
        for resource_sample in reversed(machines)
        if resource_sample.host == host
    )
    return next(samples, ())


def gpu_ratio(devices: Sequence[DeviceSample]) -> float | Missing:
    """Return the mean utilization of these accelerators."""
    ratios = [device.utilization_ratio for device in devices]
    known = [ratio for ratio in ratios if not isinstance(ratio, Missing)]
    if not known:
        return next((ratio for ratio in ratios if isinstance(ratio, Missing)), NO_ACCELERATOR)
    return sum(known) / len(known)


def gpu_memory_bytes(devices: Sequence[DeviceSample]) -> int | Missing:
    """Return the total memory in use of these accelerators."""
    sizes = [device.memory_used_bytes for device in devices]
    known = [size for size in sizes if not isinstance(size, Missing)]
    if not known:
        return next((size for size in sizes if isinstance(size, Missing)), NO_ACCELERATOR)
    return sum(known)


def _cpu_ns(resource_sample: ResourceSample) -> int | Missing:
    if isinstance(resource_sample.user_ns, Missing):
        return resource_sample.user_ns
    if isinstance(resource_sample.system_ns, Missing):
        return resource_sample.system_ns
    return resource_sample.user_ns + resource_sample.system_ns
