"""Tell of ops that have one thread, or few, where the process has more CPUs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tfprobe.errors import Missing
from tfprobe.findings.finding import Evidence, Finding
from tfprobe.findings.rule import Verdict, lacking
from tfprobe.findings.rules.threads_oversubscribed import cpus_of, whole
from tfprobe.findings.signals import Ops, ProcessSignals, Signals, WorkSignals
from tfprobe.findings.thresholds import Thresholds

# Twice as many threads make an op less than twice as fast: memory is shared.
LIKELY = 0.5
# Where the process keeps more CPUs than this busy, its ops run beside each other already.
_BUSY_RATIO = 0.75


def check(signals: Signals, limits: Thresholds) -> Iterator[Verdict]:
    """Give a finding for each loop whose ops may not use the CPUs there are.

    Processes of one machine share its CPUs: with one for each, one thread is right. The bound is
    the time of ops that are not tiny, spread over these CPUs.
    """
    beside = Counter(process.subject.host for process in signals.processes)
    for work in signals.works:
        yield _of_work(work, beside[work.process.subject.host], limits)


def _of_work(work: WorkSignals, processes: int, limits: Thresholds) -> Verdict:
    process, parts, ops = work.process, work.parts, work.ops
    if isinstance(process.settings, Missing):
        return process.settings
    cpus = cpus_of(process)
    if isinstance(cpus, Missing) or isinstance(parts, Missing) or isinstance(ops, Missing):
        return lacking(cpus, parts, ops)
    threads = whole(process.settings.get("intra_op_threads"))
    own_cpus = cpus / max(processes, 1)
    if not threads or threads > limits.few_threads_per_cpu * own_cpus or ops.has_accelerator:
        return None
    if not _leaves_cpus(process, own_cpus):
        return None
    divisible_ns = parts.of_all_steps("host_compute") * _large_ratio(ops)
    gain_ns = divisible_ns * (1 - threads / own_cpus)
    gain = work.gain(gain_ns, LIKELY * gain_ns)
    if gain.high_ratio < limits.threads_ratio:
        return None
    count = int(own_cpus)
    return Finding(
        title=f"Each op has {threads:,} thread{'' if threads == 1 else 's'} where there are "
        f"{count:,} CPUs",
        severity=limits.severity(gain),
        evidence=(
            Evidence(f"intra_op_threads: {threads:,} for {own_cpus:.3g} CPUs of the process"),
            *_used(process),
            Evidence("of the cycle, ops compute on the host", ratio=parts.ratio("host_compute")),
            *work.sample(),
        ),
        action="Leave out tf.config.threading.set_intra_op_parallelism_threads(...), "
        "ConfigProto(intra_op_parallelism_threads=...) and TF_NUM_INTRAOP_THREADS, or set as many "
        f"threads as there are CPUs: {count}.",
        gain=gain,
        part="threads",
        subject=work.subject,
    )


def _large_ratio(ops: Ops) -> float:
    return min(ops.large_ns / ops.busy_ns, 1.0) if ops.busy_ns else 0.0


def _leaves_cpus(process: ProcessSignals, cpus: float) -> bool:
    """Say whether CPUs are left over, as far as that was measured."""
    machine = process.machine
    if isinstance(machine, Missing) or isinstance(machine.used_cpus, Missing):
        return True
    return machine.used_cpus < _BUSY_RATIO * cpus


def _used(process: ProcessSignals) -> tuple[Evidence, ...]:
    machine = process.machine
    if isinstance(machine, Missing) or isinstance(machine.used_cpus, Missing):
        return ()
    return (Evidence(f"the process kept {machine.used_cpus:.2g} CPUs busy"),)
