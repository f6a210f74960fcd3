"""Compute how far processes used their machines and accelerators, from resource samples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tfprobe.analysis.core.statistics import (
    SampleCurve,
    Samples,
    growth,
    known_samples,
    level,
    rate,
)
from tfprobe.analysis.system.thread_times import ProcessThreads, thread_times
from tfprobe.errors import Missing
from tfprobe.profile.activities import DeviceSample, ResourceSample
from tfprobe.profile.profile import Process, Profile

NOT_SAMPLED = Missing("the process took no resource sample")
NO_ACCELERATOR = Missing("no accelerator was sampled: no NVIDIA GPU was found (NVML)")
NO_STEPS = Missing("no step passed between the samples")
NO_LIMIT = Missing("no limit is known")
NO_CPU_TIME = Missing("the process used no CPU time between the samples")


@dataclass(frozen=True, slots=True)
class ProcessHardware:
    """What one process used of its machine, between its first and its last sample.

    `cores_busy` is CPU time (user and system) over wall time: how many CPUs it kept busy.
    `usable_cpus` is the smaller of the CPUs it may run on and the limit of its cgroup;
    `utilization_ratio` is the mean of the former over the latter. `throttled_ratio` is the CPU time
    that the cgroup withheld, over what was used or withheld; the kernel counts it for the whole
    cgroup. `threads` are those of the operating system; `intra_op_threads` and `inter_op_threads`
    are the sizes of TensorFlow's pools as the job set them, 0 where it left them to TensorFlow,
    which makes them as large as the number of CPUs. Rates are of context switches, of page faults
    that read from storage, and of bytes read from or written to it, per second. `run_delay_ratio`
    is the share of the time in which its first thread was ready to run but had no CPU, `gc_ratio`
    the share of garbage collections. `machine_cores_busy`, `_io_wait` and `_stolen` count CPUs of
    the whole machine: busy, idle while waiting for storage, and taken by the hypervisor.
    `by_thread` is its CPU time by thread.
    """

    process: Process
    samples: int
    watched_ns: int
    steps: int
    cores_busy: SampleCurve | Missing
    system_ratio: float | Missing
    usable_cpus: float | Missing
    utilization_ratio: float | Missing
    cpus: int | Missing
    cpu_limit: float | Missing
    throttled_ratio: float | Missing
    threads: SampleCurve | Missing
    intra_op_threads: int | Missing
    inter_op_threads: int | Missing
    load_1min: SampleCurve | Missing
    voluntary_switches_per_s: SampleCurve | Missing
    involuntary_switches_per_s: SampleCurve | Missing
    voluntary_switches_per_step: float | Missing
    involuntary_switches_per_step: float | Missing
    resident_bytes: SampleCurve | Missing
    peak_resident_bytes: int | Missing
    memory_limit_bytes: int | Missing
    machine_memory_bytes: int | Missing
    read_bytes_per_s: SampleCurve | Missing
    written_bytes_per_s: SampleCurve | Missing
    major_faults_per_s: SampleCurve | Missing
    run_delay_ratio: SampleCurve | Missing
    gc_ratio: SampleCurve | Missing
    machine_cores_busy: SampleCurve | Missing
    machine_cores_io_wait: SampleCurve | Missing
    machine_cores_stolen: SampleCurve | Missing
    by_thread: ProcessThreads | Missing


@dataclass(frozen=True, slots=True)
class ThrottleReason:
    """Why clocks were throttled, and in which share of the samples."""

    reason: str
    ratio: float


@dataclass(frozen=True, slots=True)
class DeviceHardware:
    """How far one accelerator was used, by all processes. PCIe rates are in bytes per second."""

    host: str
    index: int
    name: str
    samples: int
    utilization_ratio: SampleCurve | Missing
    memory_used_bytes: SampleCurve | Missing
    memory_total_bytes: int | Missing
    power_watts: SampleCurve | Missing
    power_limit_watts: float | Missing
    sm_clock_hz: SampleCurve | Missing
    max_sm_clock_hz: int | Missing
    temperature_celsius: SampleCurve | Missing
    pcie_sent_bytes_per_s: SampleCurve | Missing
    pcie_received_bytes_per_s: SampleCurve | Missing
    throttle_reasons: tuple[ThrottleReason, ...]


@dataclass(frozen=True, slots=True)
class Hardware:
    """The use of all processes, or why it is not known, and of all accelerators."""

    processes: tuple[ProcessHardware | Missing, ...]
    devices: tuple[DeviceHardware, ...] | Missing


def hardware(profile: Profile) -> Hardware:
    """Return how far machines and accelerators were used."""
    return Hardware(processes(profile), devices(profile) or NO_ACCELERATOR)


def processes(profile: Profile) -> tuple[ProcessHardware | Missing, ...]:
    """Return how far each process used its machine."""
    by_process: dict[int | None, list[ResourceSample]] = {}
    for sample in sorted(profile.resource_samples, key=lambda sample: sample.at_ns):
        by_process.setdefault(sample.process, []).append(sample)
    return tuple(
        _of_process(process, by_process.get(process.index, [])) for process in profile.processes
    )


def devices(profile: Profile) -> tuple[DeviceHardware, ...]:
    """Return how far accelerators were used; their samples belong to hosts, not to processes."""
    samples = sorted(profile.resource_samples, key=lambda sample: sample.at_ns)
    return _devices(samples, profile.processes)


def _of_process(
    process: Process, resource_samples: Sequence[ResourceSample]
) -> ProcessHardware | Missing:
    if not resource_samples:
        # A file from elsewhere has no process, and says so.
        return process.hooks if isinstance(process.hooks, Missing) else NOT_SAMPLED

    def samples(field: Callable[[ResourceSample], float | Missing]) -> Samples | Missing:
        times_ns = [sample.at_ns for sample in resource_samples]
        return known_samples(times_ns, [field(sample) for sample in resource_samples])

    steps = resource_samples[-1].steps - resource_samples[0].steps
    user_ns, system_ns = samples(lambda p: p.user_ns), samples(lambda p: p.system_ns)
    cpu_ns = samples(_cpu_ns)
    cores_busy = rate(cpu_ns, unit_ns=1)
    voluntary = samples(lambda p: p.voluntary_switches)
    involuntary = samples(lambda p: p.involuntary_switches)
    latest = resource_samples[-1]
    usable_cpus = _least(latest.cpus, latest.cpu_limit)
    return ProcessHardware(
        process=process,
        samples=len(resource_samples),
        watched_ns=latest.at_ns - resource_samples[0].at_ns,
        steps=steps,
        cores_busy=cores_busy,
        system_ratio=_of_both(growth(system_ns), growth(user_ns)),
        usable_cpus=usable_cpus,
        utilization_ratio=_over(cores_busy, usable_cpus),
        cpus=latest.cpus,
        cpu_limit=latest.cpu_limit,
        throttled_ratio=_of_both(growth(samples(lambda p: p.throttled_ns)), growth(cpu_ns)),
        threads=level(samples(lambda p: p.threads)),
        intra_op_threads=_setting(process, "intra_op_threads"),
        inter_op_threads=_setting(process, "inter_op_threads"),
        load_1min=level(samples(lambda p: p.load_1min)),
        voluntary_switches_per_s=rate(voluntary),
        involuntary_switches_per_s=rate(involuntary),
        voluntary_switches_per_step=_per_step(growth(voluntary), steps),
        involuntary_switches_per_step=_per_step(growth(involuntary), steps),
        resident_bytes=level(samples(lambda p: p.resident_bytes)),
        peak_resident_bytes=_most([sample.peak_resident_bytes for sample in resource_samples]),
        memory_limit_bytes=latest.memory_limit_bytes,
        machine_memory_bytes=latest.machine_memory_bytes,
        read_bytes_per_s=rate(samples(lambda p: p.read_bytes)),
        written_bytes_per_s=rate(samples(lambda p: p.written_bytes)),
        major_faults_per_s=rate(samples(lambda p: p.major_faults)),
        run_delay_ratio=rate(samples(lambda p: p.run_delay_ns), unit_ns=1),
        gc_ratio=rate(samples(lambda p: p.gc_ns), unit_ns=1),
        machine_cores_busy=rate(samples(lambda p: p.machine_busy_ns), unit_ns=1),
        machine_cores_io_wait=rate(samples(lambda p: p.machine_io_wait_ns), unit_ns=1),
        machine_cores_stolen=rate(samples(lambda p: p.machine_steal_ns), unit_ns=1),
        by_thread=thread_times(resource_samples),
    )


def _setting(process: Process, name: str) -> int | Missing:
    if isinstance(process.settings, Missing):
        return process.settings
    value = process.settings.get(name)
    return value if isinstance(value, int) else Missing(f"the job did not say its {name}")


def _cpu_ns(sample: ResourceSample) -> int | Missing:
    if isinstance(sample.user_ns, Missing):
        return sample.user_ns
    if isinstance(sample.system_ns, Missing):
        return sample.system_ns
    return sample.user_ns + sample.system_ns


def _of_both(part: float | Missing, rest: float | Missing) -> float | Missing:
    """Return the share of the first in the sum of both."""
    if isinstance(part, Missing):
        return part
    if isinstance(rest, Missing):
        return rest
    return part / (part + rest) if part + rest else NO_CPU_TIME


def _over(used: SampleCurve | Missing, whole: float | Missing) -> float | Missing:
    if isinstance(used, Missing):
        return used
    return whole if isinstance(whole, Missing) else used.mean / whole


def _least(*limits: float | Missing) -> float | Missing:
    known = [limit for limit in limits if not isinstance(limit, Missing) and limit > 0]
    return min(known, default=NO_LIMIT)


def _per_step(amount: float | Missing, steps: int) -> float | Missing:
    if isinstance(amount, Missing):
        return amount
    return amount / steps if steps > 0 else NO_STEPS


def _most(values: Sequence[int | Missing]) -> int | Missing:
    known = [value for value in values if not isinstance(value, Missing)]
    return max(known) if known else values[0]


def _devices(
    resource_samples: Iterable[ResourceSample], processes: Sequence[Process]
) -> tuple[DeviceHardware, ...]:
    by_device: dict[tuple[str, int], list[tuple[int, DeviceSample]]] = {}
    for sample in resource_samples:
        host = sample.host if sample.process is None else processes[sample.process].host
        for device in sample.devices:
            by_device.setdefault((host, device.index), []).append((sample.at_ns, device))
    return tuple(_device(host, rows) for (host, _), rows in sorted(by_device.items()))


def _device(host: str, rows: Sequence[tuple[int, DeviceSample]]) -> DeviceHardware:
    times_ns, samples = zip(*rows, strict=True)

    def curve(field: Callable[[DeviceSample], float | Missing]) -> SampleCurve | Missing:
        return level(known_samples(times_ns, [field(sample) for sample in samples]))

    latest = samples[-1]
    return DeviceHardware(
        host=host,
        index=latest.index,
        name=latest.name,
        samples=len(samples),
        utilization_ratio=curve(lambda d: d.utilization_ratio),
        memory_used_bytes=curve(lambda d: d.memory_used_bytes),
        memory_total_bytes=latest.memory_total_bytes,
        power_watts=curve(lambda d: d.power_watts),
        power_limit_watts=latest.power_limit_watts,
        sm_clock_hz=curve(lambda d: d.sm_clock_hz),
        max_sm_clock_hz=latest.max_sm_clock_hz,
        temperature_celsius=curve(lambda d: d.temperature_celsius),
        pcie_sent_bytes_per_s=curve(lambda d: d.pcie_sent_bytes_per_s),
        pcie_received_bytes_per_s=curve(lambda d: d.pcie_received_bytes_per_s),
        throttle_reasons=_reasons(samples),
    )


def _reasons(samples: Sequence[DeviceSample]) -> tuple[ThrottleReason, ...]:
    counts = Counter(reason for sample in samples for reason in set(sample.throttle_reasons))
    return tuple(
        ThrottleReason(reason, count / len(samples))
        for reason, count in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    )
