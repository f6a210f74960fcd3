"""Find threads without CPUs: pools of the wrong size, and CPUs that others have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from tfprobe.analysis.ops.step_ops import StepOps
from tfprobe.errors import Missing
from tfprobe.findings.finding import Evidence, Finding, Severity
from tfprobe.findings.rule import LoopAnalysis, ProcessAnalysis, RunAnalysis, Verdict, lacking
from tfprobe.findings.thresholds import Thresholds

# Twice the threads make an op less than twice as fast, because they share memory.
LIKELY = 0.5
# If the process keeps more CPUs than this busy, its ops already run in parallel.
_BUSY_RATIO = 0.75


def threads_few(run: RunAnalysis, limits: Thresholds) -> Iterator[Verdict]:
    """Give a finding for each loop whose ops are limited to fewer threads than there are CPUs.

    Processes of one machine share its CPUs: with one CPU for each, one thread is right, as it is
    where the thread of the steps waits for a CPU itself. The bound is what is saved if ops that are
    not tiny use all of these CPUs.
    """
    processes = Counter(process.subject.host for process in run.processes)
    for loop in run.loops:
        yield _of_loop(loop, processes[loop.process.subject.host], limits)


def _of_loop(loop: LoopAnalysis, processes: int, limits: Thresholds) -> Verdict:
    process, parts, ops = loop.process, loop.parts, loop.ops
    if isinstance(process.settings, Missing):
        return process.settings
    cpus = cpus_of(process)
    if isinstance(cpus, Missing) or isinstance(parts, Missing) or isinstance(ops, Missing):
        return lacking(cpus, parts, ops)
    name, threads = _threads_of_op(process.settings)
    own_cpus = cpus / max(processes, 1)
    if not threads or threads > limits.few_threads_per_cpu * own_cpus or ops.has_accelerator:
        return None
    if not _leaves_cpus(process, own_cpus) or _is_contended(process, limits):
        return None
    divisible_ns = parts.of_all_steps("host_compute") * _large_ratio(ops)
    gain_ns = divisible_ns * (1 - threads / own_cpus)
    gain = loop.gain(gain_ns, LIKELY * gain_ns)
    if gain.high_ratio < limits.threads_ratio:
        return None
    count = int(own_cpus)
    return Finding(
        title=f"Each op has {threads:,} thread{'' if threads == 1 else 's'} where there are "
        f"{count:,} CPUs",
        severity=limits.severity(gain),
        evidence=(
            Evidence(f"{name}: {threads:,} for {own_cpus:.3g} CPUs of the process"),
            *_used(process),
            Evidence(
                "share of the cycle in which ops compute on the host",
                ratio=parts.ratio("host_compute"),
            ),
            *loop.traced_step(),
        ),
        action="Leave out tf.config.threading.set_intra_op_parallelism_threads(...), "
        "ConfigProto(intra_op_parallelism_threads=...) and TF_NUM_INTRAOP_THREADS, or set as many "
        f"threads as there are CPUs: {count}.",
        gain=gain,
        part="threads",
        subject=loop.subject,
    )


def _threads_of_op(settings: Mapping[str, Any]) -> tuple[str, int]:
    """Return how many threads an op may use, and what says so; 0 where nothing limits them."""
    of_torch = settings.get("torch") or {}
    if threads := whole_number(of_torch.get("num_threads")):
        return _OF_TORCH, threads
    return "intra_op_threads", whole_number(settings.get("intra_op_threads"))


def _large_ratio(ops: StepOps) -> float:
    return min(ops.large_ns / ops.busy_ns, 1.0) if ops.busy_ns else 0.0


def _leaves_cpus(process: ProcessAnalysis, cpus: float) -> bool:
    """Say whether CPUs are idle, or that was not measured."""
    machine = process.machine
    if isinstance(machine, Missing) or isinstance(machine.used_cpus, Missing):
        return True
    return machine.used_cpus < _BUSY_RATIO * cpus


def _used(process: ProcessAnalysis) -> tuple[Evidence, ...]:
    machine = process.machine
    if isinstance(machine, Missing) or isinstance(machine.used_cpus, Missing):
        return ()
    return (Evidence(f"the process kept {machine.used_cpus:.2g} CPUs busy"),)


# Threads that alternate lose caches and delay each other only some of the time: less than half of
# the time that n threads wait for c CPUs was saved where it was measured.
BOUND = 0.5
THREADS_OVERSUBSCRIBED_LIKELY = 0.2
# With many context switches, 32 or 64 threads for 2 CPUs cost 44 to 64 % of the loop.
BOUND_IF_SEEN = 0.75
LIKELY_IF_SEEN = 0.75 * BOUND_IF_SEEN
_OF_TORCH = "torch.get_num_threads()"
_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")


def threads_oversubscribed(loop: LoopAnalysis, limits: Thresholds) -> Verdict:
    """Return a finding for too many threads.

    Each of n threads on c CPUs waits (n - c) / n of the host's compute time: the bound is half of
    that, or three quarters if threads were seen to lose their CPUs to each other.
    """
    process, parts = loop.process, loop.parts
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
    bound, likely = (
        (BOUND_IF_SEEN, LIKELY_IF_SEEN) if is_seen else (BOUND, THREADS_OVERSUBSCRIBED_LIKELY)
    )
    gain = loop.gain(bound * gain_ns, likely * gain_ns)
    throttled_ns = _throttled_ns(process)
    count = max(int(cpus), 1)
    return Finding(
        title="There are more threads than CPUs",
        severity=limits.severity(gain),
        evidence=(
            Evidence(f"{name}: {threads:,} threads for {cpus:.3g} CPUs"),
            *([Evidence(f"{switches:,.0f} context switches per second")] if is_seen else []),
            *(
                [Evidence("time throttled by the cgroup", time_ns=throttled_ns)]
                if throttled_ns
                else []
            ),
        ),
        action=f"Set TF_NUM_INTRAOP_THREADS={count} TF_NUM_INTEROP_THREADS={count} "
        f"OMP_NUM_THREADS={count}. If the job sets its threads itself "
        "(tf.config.threading, ConfigProto), that overrides these variables.",
        gain=gain,
        part="threads",
    )


_CPUS_UNKNOWN = Missing("other threads of the process wait, too, and it is not known how long")


def cpus_contended(loop: LoopAnalysis, limits: Thresholds) -> Verdict:
    """Return a finding if the thread of the steps waits for CPUs that it may not have now.

    Either its cgroup has used up its limit, which can be raised, or others run, which is no fault
    of the job, and a note. There is no bound: only the first thread's wait is recorded.
    """
    process = loop.process
    threads, machine = process.threads, process.machine
    if isinstance(threads, Missing) or isinstance(machine, Missing):
        return lacking(threads, machine)
    if not loop.is_main or not _is_contended(process, limits):
        return None
    throttled_ns, others = _throttled_ns(process), machine.others_cpus
    is_limited = _is_throttled(process, limits)
    evidence = [
        Evidence(
            "share of time in which the thread of the steps was ready to run and had no CPU",
            ratio=threads.delay_ratio,
        )
    ]
    if is_limited:
        evidence.append(Evidence("time throttled by the cgroup", time_ns=throttled_ns))
    if not isinstance(others, Missing):
        evidence.append(Evidence(f"other processes and the hypervisor kept {others:.2g} CPUs busy"))
    return Finding(
        title="Steps wait for CPUs that the cgroup withholds"
        if is_limited
        else "Steps wait for CPUs that others use",
        severity=Severity.WARNING if is_limited else Severity.INFO,
        evidence=(*evidence, *_used(process)),
        action=_MORE_CPUS if is_limited else _FEWER_PROCESSES,
        gain=_CPUS_UNKNOWN,
        part="cpus",
    )


def _is_contended(process: ProcessAnalysis, limits: Thresholds) -> bool:
    """Say whether the thread of the steps was seen to wait for CPUs that it may not have now."""
    threads, machine = process.threads, process.machine
    if isinstance(threads, Missing) or isinstance(machine, Missing):
        return False
    if threads.delay_ratio < limits.cpu_wait_ratio:
        return False
    has_others = not threads.is_alone and not isinstance(machine.others_cpus, Missing)
    return has_others or _is_throttled(process, limits)


def _is_throttled(process: ProcessAnalysis, limits: Thresholds) -> bool:
    return _throttled_ns(process) >= limits.cpu_wait_ratio * process.wall_ns


_MORE_CPUS = (
    "Raise the CPU limit of the container or of the job (cpu.max, limits.cpu, --cpus), or let the "
    "job use no more threads than the limit has CPUs."
)
_FEWER_PROCESSES = (
    "Run fewer processes at a time on this machine, or give each CPUs of its own (taskset, "
    "cpusets, Slurm's --cpus-per-task) and as many threads. Times of this run are longer by that "
    "wait, and gains by other advice may be, too."
)


def cpus_of(process: ProcessAnalysis) -> float | Missing:
    """Return the number of CPUs, by cgroup and affinity; in a short run by affinity only."""
    if not isinstance(process.machine, Missing):
        return process.machine.cpus
    settings = {} if isinstance(process.settings, Missing) else process.settings
    count = whole_number(settings.get("cpus"))
    return float(count) if count else process.machine


def _switches_per_s(process: ProcessAnalysis) -> float:
    machine = process.machine
    if isinstance(machine, Missing) or isinstance(machine.switches_per_s, Missing):
        return 0.0
    return machine.switches_per_s


def _throttled_ns(process: ProcessAnalysis) -> int:
    if isinstance(process.machine, Missing) or isinstance(process.machine.throttled_ns, Missing):
        return 0
    return process.machine.throttled_ns


def _pools(settings: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Return the sizes of thread pools; 0 means as many as TensorFlow sees CPUs."""
    for name in ("intra_op_threads", "inter_op_threads"):
        size = settings.get(name)
        if isinstance(size, int) and not isinstance(size, bool):
            yield name, size or whole_number(settings.get("cpus"))
    of_torch = settings.get("torch") or {}
    threads = whole_number(of_torch.get("num_threads"))
    if threads:
        # What PyTorch says is in force, whatever the variables ask for.
        yield _OF_TORCH, threads
        return
    environment = settings.get("environment") or {}
    for name in _VARIABLES:
        yield name, whole_number(environment.get(name))


def whole_number(value: object) -> int:
    text = str(value)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
