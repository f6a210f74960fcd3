"""Gather what is known of a process besides its loops: activities, machine, threads, memory."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from tfprobe.analysis.account.account import Account
from tfprobe.analysis.account.categories import Category
from tfprobe.analysis.breakdown.gap_breakdown import gaps_before_steps, watched_gaps
from tfprobe.analysis.breakdown.python_lines import python_lines
from tfprobe.analysis.core.main_loop import fills_queue
from tfprobe.analysis.core.releases import release_of
from tfprobe.analysis.core.source_lines import is_of_library
from tfprobe.analysis.memory.allocator_levels import fullest
from tfprobe.analysis.memory.host_memory import GrowthVerdict, memory_of
from tfprobe.analysis.steps.recent_steps import measure
from tfprobe.analysis.system.application import ProcessActivities
from tfprobe.analysis.system.thread_times import ThreadGroup, thread_times
from tfprobe.errors import Missing
from tfprobe.findings.finding import Subject
from tfprobe.findings.signals import (
    ActivitySignal,
    DeviceMemory,
    MachineSignal,
    ProcessSignals,
    Python,
    PythonThread,
    PythonUse,
    ThreadUseSignal,
)
from tfprobe.profile.activities import Activity, Gap, ResourceSample, ThreadTimes
from tfprobe.profile.profile import Loop, Process, Profile

# A device that steps run on, as TensorFlow names it; those of the host are no accelerators.
_DEVICE = re.compile(r"device:(?!(?:XLA_)?CPU:)[A-Z_]+:\d+", re.IGNORECASE)


def process_signals(
    profile: Profile,
    did: ProcessActivities,
    memory: tuple[DeviceMemory, ...],
    account: Account | Missing,
    *,
    loop_ns: int,
) -> ProcessSignals:
    """Return the signals of a process; `loop_ns` is that of the thread with most steps."""
    process = did.process
    cost = measure(process, profile.loops)
    return ProcessSignals(
        subject=subject_of(process),
        overhead_ns=cost if isinstance(cost, Missing) else cost.traced_ns + cost.hook_ns,
        wall_ns=0 if isinstance(cost, Missing) else cost.wall_ns,
        settings=process.settings,
        activities=tuple(with_own_line(activity, account) for activity in activities(profile, did)),
        machine=machine(profile, process.index),
        device_memory=memory,
        has_accelerator=has_accelerator(process),
        loop_ns=loop_ns,
        group=process.group,
        release=release_of(process.tensorflow),
        account=account if isinstance(account, Missing) else replace(account, strip=None),
        own_profiler=process.own_profiler,
        threads=thread_use(profile, process.index),
        functions=frozenset(
            loop.name
            for loop in profile.loops
            if loop.process == process.index and loop.kind == "function"
        ),
    )


def with_own_line(use: ActivitySignal, account: Account | Missing) -> ActivitySignal:
    """Return callbacks with the line of the job's own method, where a gap with it was watched."""
    if use.kind != "callbacks" or isinstance(account, Missing):
        return use
    method = use.name.rpartition(".")[2]
    items = (*account.items(Category.CALLBACKS), *account.items(Category.EPOCH_ENDS))
    own = (
        item.source
        for item in items
        if item.what == method and item.source and not is_of_library(item.source)
    )
    return replace(use, source=next(own, use.source))


def subject_of(process: Process, kind: str = "", name: str = "") -> Subject:
    """Return a process, or a loop of it, as what a finding is of."""
    return Subject(process.host, process.pid or None, process.rank, kind, name, process.title)


def has_accelerator(process: Process) -> bool:
    """Say whether the process has a device besides the host's."""
    if isinstance(process.devices, Missing):
        return False
    return any(_DEVICE.search(name) for name in process.devices)


def activities(profile: Profile, item: ProcessActivities) -> tuple[ActivitySignal, ...]:
    """Return activities with their own time, what was begun inside them left out; longest first.

    What ended before the first step began, or began when the last was over, is left out, too: of
    activities of which not all intervals were kept, in proportion.
    """
    process = item.process.index
    loops = [loop for loop in profile.loops if loop.process == process]
    first_ns = min((each.first_seen_ns for each in loops if each.first_seen_ns), default=0)
    last_ns = _last_ns(profile, loops, process)
    mine = [activity for activity in profile.activities if activity.process == process]
    found = []
    for use in item.activities:
        if use.is_step or isinstance(use.exclusive_ns, Missing):
            continue
        same = [each for each in mine if (each.kind, each.name) == (use.kind, use.name)]
        early_count, early_ns = _before(same, first_ns)
        late_count, late_ns = _after(same, last_ns)
        count, total_ns = use.count - early_count - late_count, use.total_ns - early_ns - late_ns
        left_ratio = max(total_ns, 0) / use.total_ns if use.total_ns else 0.0
        if count > 0:
            own_ns = round(use.exclusive_ns * left_ratio)
            ran = [each for each in same if each.end_ns > first_ns]
            found.append(
                ActivitySignal(use.kind, use.name, count, own_ns, max(total_ns, 0), _source(ran))
            )
    return tuple(sorted(found, key=lambda use: -use.own_ns))


def _source(rows: list[Activity]) -> str:
    """Return the line that called for most of these."""
    lines = Counter(f"{row.file}:{row.line}" for row in rows if row.file)
    return lines.most_common(1)[0][0] if lines else ""


def _last_ns(profile: Profile, loops: list[Loop], process: int) -> int | None:
    """Return when the last step of a process was over, in unix ns; None where nobody knows."""
    shift_ns = profile.processes[process].unix_minus_monotonic_ns
    ends = [int(loop.recent.end_ns[-1]) for loop in loops if len(loop.recent.end_ns)]
    return None if isinstance(shift_ns, Missing) or not ends else max(ends) + shift_ns


def _after(rows: list[Activity], last_ns: int | None) -> tuple[int, int]:
    """Return how many began after a moment, and what they took; counts are running ones."""
    late = [row for row in rows if last_ns is not None and row.start_ns >= last_ns]
    rest = [row for row in rows if last_ns is None or row.start_ns < last_ns]
    counts = [max((each.count for each in some), default=0) for some in (late, rest)]
    totals = [max((each.total_ns for each in some), default=0) for some in (late, rest)]
    return max(counts[0] - counts[1], 0), max(totals[0] - totals[1], 0)


def _before(rows: list[Activity], first_ns: int) -> tuple[int, int]:
    """Return how many ended before a moment, and what they took; counts are running ones."""
    early = [row for row in rows if row.end_ns <= first_ns]
    return (
        max((each.count for each in early), default=0),
        max((each.total_ns for each in early), default=0),
    )


_NS_PER_S = 1_000_000_000


def machine(profile: Profile, process: int) -> MachineSignal | Missing:
    """Return what the pulses of a process tell of it."""
    resource_samples = sorted(
        (sample for sample in profile.resource_samples if sample.process == process),
        key=lambda each: each.at_ns,
    )
    if len(resource_samples) < 2:
        return Missing("there is only one resource sample of the process")
    told = memory_of(profile.processes[process], resource_samples)
    memory = told or Missing("/proc has no memory data of the process")
    growth = memory if isinstance(memory, Missing) else memory.growth
    known = not isinstance(growth, Missing)
    return MachineSignal(
        cpus=_cpus(resource_samples[-1]),
        throttled_ns=_throttled_ns(resource_samples),
        resident_bytes=memory if isinstance(memory, Missing) else memory.in_steps_bytes,
        peak_bytes=memory if isinstance(memory, Missing) else memory.peak_bytes,
        limit_bytes=memory if isinstance(memory, Missing) else memory.limit_bytes,
        growth_bytes_per_step=growth if isinstance(growth, Missing) else growth.bytes_per_step,
        grows=known and not isinstance(growth, Missing) and growth.verdict is GrowthVerdict.GROWING,
        watched_steps=0 if isinstance(growth, Missing) else growth.last_step - growth.first_step,
        steps=resource_samples[-1].steps,
        used_cpus=_used_cpus(resource_samples),
        switches_per_s=_switches_per_s(resource_samples),
    )


def _cpus(resource_sample: ResourceSample) -> float | Missing:
    """Return the CPUs there are for the process: by affinity, or fewer by its cgroup."""
    numbers = [
        each
        for each in (resource_sample.cpus, resource_sample.cpu_limit)
        if not isinstance(each, Missing)
    ]
    return float(min(numbers)) if numbers else Missing("the number of CPUs is unknown")


def _used_cpus(resource_samples: Sequence[ResourceSample]) -> float | Missing:
    before_ns, after_ns = _cpu_ns(resource_samples[0]), _cpu_ns(resource_samples[-1])
    wall_ns = resource_samples[-1].at_ns - resource_samples[0].at_ns
    if isinstance(before_ns, Missing) or isinstance(after_ns, Missing) or wall_ns <= 0:
        return Missing("the CPU time of its threads is unknown")
    return (after_ns - before_ns) / wall_ns


def _switches_per_s(resource_samples: Sequence[ResourceSample]) -> float | Missing:
    before, after = _switches(resource_samples[0]), _switches(resource_samples[-1])
    wall_ns = resource_samples[-1].at_ns - resource_samples[0].at_ns
    if isinstance(before, Missing) or isinstance(after, Missing) or wall_ns <= 0:
        return Missing("the number of context switches is unknown")
    return (after - before) / wall_ns * _NS_PER_S


def _switches(resource_sample: ResourceSample) -> int | Missing:
    numbers = resource_sample.voluntary_switches, resource_sample.involuntary_switches
    if isinstance(numbers[0], Missing) or isinstance(numbers[1], Missing):
        return Missing("the number of context switches is unknown")
    return numbers[0] + numbers[1]


def _cpu_ns(resource_sample: ResourceSample) -> int | Missing:
    if isinstance(resource_sample.user_ns, Missing) or isinstance(
        resource_sample.system_ns, Missing
    ):
        return Missing("the CPU time of its threads is unknown")
    return resource_sample.user_ns + resource_sample.system_ns


def _throttled_ns(resource_samples: Sequence[ResourceSample]) -> int | Missing:
    first, last = resource_samples[0].throttled_ns, resource_samples[-1].throttled_ns
    if isinstance(first, Missing) or isinstance(last, Missing):
        return Missing("the cgroup has no throttling data")
    return max(last - first, 0)


# The first thread, the one of which the kernel's wait for a CPU is noted.
_FIRST = "MainThread"
# Others that keep less of a CPU busy make no thread wait for one.
_OTHERS_CORES = 0.5


def thread_use(profile: Profile, process: int) -> ThreadUseSignal | Missing:
    """Return what Python's threads used while steps ran, not what they did after the last."""
    resource_samples = sorted(
        (
            sample
            for sample in profile.resource_samples
            if sample.process == process and not sample.at_exit
        ),
        key=lambda each: each.at_ns,
    )
    found = thread_times(_behind_first_step(resource_samples))
    if isinstance(found, Missing):
        return found
    if found.unmapped:
        return Missing("its Python cannot identify its own threads (3.7 and later can)")
    python = [group for group in found.groups if group.is_python]
    of_steps = [group for group in python if group.runs_steps]
    if not of_steps:
        return Missing("no resource sample identifies the thread that runs the steps")
    if isinstance(found.run_delay_ns, Missing):
        return found.run_delay_ns
    if len(of_steps) != 1 or of_steps[0].name != _FIRST:
        return Missing("its steps run in other threads than the first")
    return ThreadUseSignal(
        steps_cores=of_steps[0].cores,
        delay_ratio=found.run_delay_ns / max(found.watched_ns, 1),
        is_alone=_is_alone(resource_samples),
        others=tuple(_thread(group) for group in python if not group.runs_steps),
    )


def _behind_first_step(resource_samples: Sequence[ResourceSample]) -> Sequence[ResourceSample]:
    """Leave the time of the first step out, which traces and compiles, where there is another."""
    later = [resource_sample for resource_sample in resource_samples if resource_sample.steps]
    sampled = [
        resource_sample
        for resource_sample in later
        if isinstance(resource_sample.thread_times, ThreadTimes)
    ]
    return later if len(sampled) > 1 else resource_samples


def _is_alone(resource_samples: Sequence[ResourceSample]) -> bool:
    """Say whether others had next to nothing of the machine's CPUs; not if that is unknown."""
    known = [
        (
            resource_sample.at_ns,
            resource_sample.machine_busy_ns + resource_sample.machine_steal_ns,
            resource_sample.user_ns + resource_sample.system_ns,
        )
        for resource_sample in resource_samples
        if not isinstance(resource_sample.machine_busy_ns, Missing)
        and not isinstance(resource_sample.machine_steal_ns, Missing)
        and not isinstance(resource_sample.user_ns, Missing)
        and not isinstance(resource_sample.system_ns, Missing)
    ]
    if len(known) < 2:
        return False
    passed_ns, busy_ns, own_ns = (
        last - first for first, last in zip(known[0], known[-1], strict=True)
    )
    return busy_ns - own_ns < _OTHERS_CORES * passed_ns


def _thread(group: ThreadGroup) -> PythonThread:
    stand = group.stands[0] if group.stands else None
    samples = sum(each.samples for each in group.stands)
    in_python = sum(each.in_python for each in group.stands)
    return PythonThread(
        name=group.name,
        cores=group.cores,
        source="" if stand is None else f"{stand.file}:{stand.line}",
        function="" if stand is None else stand.function,
        in_python_ratio=in_python / samples if samples else 0.0,
    )


def device_memories(profile: Profile) -> dict[int, tuple[DeviceMemory, ...]]:
    """Return by process the fullest that its devices were, where their allocators told."""
    found: dict[int, tuple[DeviceMemory, ...]] = {}
    for each in fullest(profile):
        peak, capacity = each.lifetime_peak_bytes, each.capacity_bytes
        if isinstance(peak, Missing) or isinstance(capacity, Missing) or not capacity:
            continue
        memory = DeviceMemory(each.device or each.allocator, peak, capacity)
        found[each.process] = (*found.get(each.process, ()), memory)
    return found


_TOP = 5


def python(profile: Profile, loop: Loop) -> Python | Missing:
    """Return the lines; of gaps that are no longer than usual, where such ones were watched."""
    if fills_queue(loop):
        return Missing("its steps fill a queue for the steps of the job")
    key = (loop.process, loop.index)
    watched = watched_gaps(profile, {key: loop}).get(key)
    if watched is None:
        return Missing("the time between its steps was not watched")
    gaps = tuple(watched.by_step.values())
    # All of a loop with long gaps alone may look unusual.
    usual = watched.usual if gaps else None
    gaps = gaps or tuple(g for g in gaps_before_steps(profile) if (g.process, g.loop) == key)
    told = python_lines(gaps, usual)[:_TOP]
    lines = (
        PythonUse(each.what, f"{each.file}:{each.line}", each.kind.value, each.ratio, each.calls)
        for each in told
    )
    around = _under_way(gaps[-1])
    return Python(tuple(lines), len(gaps), *((around[0], around[-1]) if around else ()))


def _under_way(gap: Gap) -> list[str]:
    """Return the lines of the job that were under way as a step ended, the innermost first."""
    around = [call for call in gap.calls if call.parent is None and not is_of_library(call.file)]
    return [f"{call.file}:{call.called_line}" for call in around if call.called_line]
