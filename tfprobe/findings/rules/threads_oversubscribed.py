"""Tell of thread pools larger than the CPUs that the process may use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tfprobe.errors import Missing
from tfprobe.findings.finding import Evidence, Finding
from tfprobe.findings.rule import Verdict, lacking
from tfprobe.findings.signals import ProcessSignals, WorkSignals
from tfprobe.findings.thresholds import Thresholds

# Threads that take turns lose caches and hold each other up, not all of the time: of what n threads
# wait for c CPUs, less than half was won where it was measured.
BOUND = 0.5
LIKELY = 0.2
# Where they were seen taking turns without end, 64 threads for 2 CPUs cost 44 to 63 % of the loop.
BOUND_IF_SEEN = 0.7
LIKELY_IF_SEEN = 0.4
_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")


def check(work: WorkSignals, limits: Thresholds) -> Verdict:
    """Return a finding for too many threads.

    Of n threads on c CPUs, each waits (n - c) / n of the host's compute time: the bound is half of
    that, or seven tenths where threads were seen losing their CPUs to each other.
    """
    process, parts = work.process, work.parts
    if isinstance(process.settings, Missing):
        return process.settings
    cpus = cpus_of(process)
    if isinstance(cpus, Missing) or isinstance(parts, Missing):
        return lacking(cpus, parts)
    pools = sorted(_pools(process.settings), key=lambda pool: -pool[1])
    if not pools or pools[0][1] < limits.threads_per_cpu * cpus:
        return None
    name, threads = pools[0]
    gain_ns = parts.of_all_steps("host_compute", "input_wait") * (1 - cpus / threads)
    switches = _switches_per_s(process)
    is_seen = switches >= limits.switches_per_s
    bound, likely = (BOUND_IF_SEEN, LIKELY_IF_SEEN) if is_seen else (BOUND, LIKELY)
    gain = work.gain(bound * gain_ns, likely * gain_ns)
    throttled_ns = _throttled_ns(process)
    count = max(int(cpus), 1)
    return Finding(
        title="There are more threads than CPUs",
        severity=limits.severity(gain),
        evidence=(
            Evidence(f"{name}: {threads:,} threads for {cpus:.3g} CPUs"),
            *([Evidence(f"{switches:,.0f} context switches a second")] if is_seen else []),
            *(
                [Evidence("the cgroup held the process back for", time_ns=throttled_ns)]
                if throttled_ns
                else []
            ),
        ),
        action=f"Set TF_NUM_INTRAOP_THREADS={count} TF_NUM_INTEROP_THREADS={count} "
        f"OMP_NUM_THREADS={count}. Where the job sets its threads itself "
        "(tf.config.threading, ConfigProto), that wins over these variables.",
        gain=gain,
        part="threads",
    )


def cpus_of(process: ProcessSignals) -> float | Missing:
    """Return the CPUs there are: by cgroup and affinity, or in a short run by affinity alone."""
    if not isinstance(process.machine, Missing):
        return process.machine.cpus
    settings = {} if isinstance(process.settings, Missing) else process.settings
    count = whole(settings.get("cpus"))
    return float(count) if count else process.machine


def _switches_per_s(process: ProcessSignals) -> float:
    machine = process.machine
    if isinstance(machine, Missing) or isinstance(machine.switches_per_s, Missing):
        return 0.0
    return machine.switches_per_s


def _throttled_ns(process: ProcessSignals) -> int:
    if isinstance(process.machine, Missing) or isinstance(process.machine.throttled_ns, Missing):
        return 0
    return process.machine.throttled_ns


def _pools(settings: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Return the sizes of pools; 0 stands for as many as TensorFlow sees CPUs."""
    for name in ("intra_op_threads", "inter_op_threads"):
        size = settings.get(name)
        if isinstance(size, int) and not isinstance(size, bool):
            yield name, size or whole(settings.get("cpus"))
    environment = settings.get("environment") or {}
    for name in _VARIABLES:
        yield name, whole(environment.get(name))


def whole(value: object) -> int:
    text = str(value)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
