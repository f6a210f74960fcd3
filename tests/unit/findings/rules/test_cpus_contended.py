"""Waits for CPUs that others have are told as a note, those by a limit as a warning."""

from __future__ import annotations

from dataclasses import replace

from tests.support.subjects import MS, WHOLE_NS, found, loop, machine, process
from tfprobe.analysis.system.thread_times import StepThreads
from tfprobe.errors import Missing
from tfprobe.findings.finding import Finding, Severity

WAITING = StepThreads(0.3, 0.4, is_alone=False, others=())
BUSY = machine(used_cpus=0.5, others_cpus=3.4)


def _found(threads: StepThreads | Missing = WAITING, **changes: object) -> Finding | None:
    use = replace(BUSY, **changes)
    return found("cpus_contended", loop(process=process(threads=threads, machine=use)))


def test_cpus_that_others_use_are_told_as_a_note() -> None:
    """How much would be won is not known: only the wait of the first thread is recorded."""
    finding = _found()

    assert finding is not None
    assert finding.severity is Severity.INFO
    assert finding.evidence[0].ratio == 0.4
    assert "other processes and the hypervisor kept 3.4 CPUs busy" in [
        each.text for each in finding.evidence
    ]
    assert isinstance(finding.gain, Missing)


def test_a_limit_of_the_cgroup_is_a_warning() -> None:
    """Whoever runs the job can raise it."""
    finding = _found(replace(WAITING, is_alone=True), throttled_ns=WHOLE_NS, others_cpus=0.0)

    assert finding is not None
    assert finding.severity is Severity.WARNING
    assert finding.evidence[1].time_ns == WHOLE_NS
    assert "cpu.max" in finding.action


def test_threads_of_the_process_itself_are_not() -> None:
    """They are too many, which is another finding."""
    assert _found(replace(WAITING, is_alone=True)) is None


def test_a_short_wait_is_not() -> None:
    """A thread loses its CPU now and then on any machine."""
    assert _found(replace(WAITING, delay_ratio=0.09)) is None
    assert _found(replace(WAITING, delay_ratio=0.0), throttled_ns=100 * MS) is None


def test_without_samples_it_cannot_be_checked() -> None:
    """Unless the wait for a CPU is known, nothing is told."""
    assert _found(Missing("no sample")) is None
