"""Tell of an input that is never late, and has the CPUs that the steps would compute on."""

from __future__ import annotations

from collections.abc import Iterator

from tfprobe.errors import Missing
from tfprobe.findings.finding import Evidence, Finding
from tfprobe.findings.rule import Verdict, lacking
from tfprobe.findings.signals import Ops, Parts, WorkSignals
from tfprobe.findings.thresholds import Thresholds

# What a cache or a file takes to read is left, and steps have not all of their time from CPUs.
LIKELY = 0.5
# An input that takes the CPUs is late at times: it is the cause from this part of the other on.
_SMALL_WAIT = 0.25
_INPUT_PARTS = ("input_wait", "host_preprocess", "feed")
_SHOWN = 3


def check(work: WorkSignals, limits: Thresholds) -> Verdict:
    """Return a finding where ops of the input run beside steps that compute, and no CPU is left."""
    parts, ops, machine = work.parts, work.ops, work.process.machine
    if isinstance(parts, Missing) or isinstance(ops, Missing) or isinstance(machine, Missing):
        return lacking(parts, ops, machine)
    cpus, used_cpus = machine.cpus, machine.used_cpus
    if isinstance(cpus, Missing) or isinstance(used_cpus, Missing):
        return lacking(cpus, used_cpus)
    if ops.has_accelerator or _is_late(work, parts, limits):
        return None
    if used_cpus < limits.busy_cpus_ratio * _to_have(work, cpus):
        return None
    gain = work.gain(work.beside_ns, LIKELY * work.beside_ns)
    if gain.high_ratio < limits.input_cpus_ratio:
        return None
    return Finding(
        title="The input takes the CPUs that steps compute on",
        severity=limits.severity(gain),
        evidence=(
            *_evidence(work, ops),
            Evidence(f"the process kept {used_cpus:.2g} of {cpus:.3g} CPUs busy"),
            Evidence("of the cycle, steps wait for their input", ratio=parts.ratio("input_wait")),
            *work.sample(),
            work.shown_by("input"),
        ),
        action=_action(work),
        gain=gain,
        part="input_cpus",
    )


def _is_late(work: WorkSignals, parts: Parts, limits: Thresholds) -> bool:
    """Say whether steps wait for the input, and not for a small part of what it holds them up."""
    if not isinstance(work.input, Missing) and work.input.keeps_up:
        return False
    waits_ns = max(limits.input_ratio * parts.total_ns, _SMALL_WAIT * work.beside_ns)
    return parts.of_all_steps(*_INPUT_PARTS) >= waits_ns


def _to_have(work: WorkSignals, cpus: float) -> float:
    """Return how many CPUs there were to have: where the thread of the steps had to wait for one,
    fewer than the process may use."""
    threads = work.process.threads
    return cpus if isinstance(threads, Missing) else cpus * threads.had_ratio


def _evidence(work: WorkSignals, ops: Ops) -> Iterator[Evidence]:
    found = work.input
    types = ", ".join(use.type for use in ops.beside[:_SHOWN])
    stage = "the input" if isinstance(found, Missing) else found.bottleneck
    yield Evidence(
        f"ops of {stage} run beside the step ({types}), a step",
        time_ns=round(ops.beside_ns),
        iterator="" if isinstance(found, Missing) else found.iterator,
        source="" if isinstance(found, Missing) else found.source,
        op_type=ops.beside[0].type if ops.beside else "",
    )


def _action(work: WorkSignals) -> str:
    found = work.input
    once = ".cache() behind what takes long and is not random, before .repeat(), or "
    may_cache = isinstance(found, Missing) or (
        "Generator" not in found.nodes and (found.may_cache or "Repeat" in found.nodes)
    )
    return (
        f"Prepare the data once: {once if may_cache else ''}write what it makes to files before "
        "training, or take a cheaper form of it."
    )
