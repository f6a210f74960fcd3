"""Reading a tensor after nine of ten steps is told, with the line that does it."""

from __future__ import annotations

from dataclasses import replace

from tests.support.subjects import MS, found, loop, parts, process
from tfprobe.analysis.breakdown.python_lines import TensorReads
from tfprobe.findings.finding import Severity


def _syncs(ratio: float, ms: float = 0.1) -> TensorReads:
    return TensorReads(10, ratio, 1.0, ms * MS, "numpy", "train.py:31")


def test_nine_of_ten_gaps_are_told() -> None:
    """On the host a read costs only itself: that is the bound, and here no cause for alarm."""
    finding = found("host_sync", loop(reads=_syncs(0.9)))

    assert finding is not None
    assert (round(finding.gain.high_ratio, 6), finding.severity) == (0.01, Severity.INFO)
    assert finding.evidence[0].source == "train.py:31"
    assert finding.evidence[0].text == "1 read per step by numpy, time per step"


def test_several_reads_are_reads() -> None:
    """Where more than one tensor is asked for after each step."""
    finding = found("host_sync", loop(reads=replace(_syncs(1.0), calls=2.5)))

    assert finding is not None
    assert finding.evidence[0].text.startswith("2.5 reads per step")


def test_reads_of_no_line_of_the_job_are_a_note() -> None:
    """Keras reads its logs: nobody can do so less often."""
    own = found("host_sync", loop(reads=_syncs(1.0, ms=4)))
    of_keras = found("host_sync", loop(reads=replace(_syncs(1.0, ms=4), source="")))

    assert own is not None
    assert of_keras is not None
    assert (own.severity, of_keras.severity) == (Severity.CRITICAL, Severity.INFO)


def test_fewer_are_not() -> None:
    """Logging at every Nth step is what is advised."""
    assert found("host_sync", loop(reads=_syncs(0.89))) is None


def test_with_an_accelerator_the_host_could_run_ahead() -> None:
    """At best the shorter of host and device hides behind the longer."""
    shares = parts(device_compute_32bit=0.7, sync_wait=0.3, host_compute=0.0)
    waiting = loop(reads=_syncs(1.0), parts=shares, process=process(has_accelerator=True))

    finding = found("host_sync", waiting)

    assert finding is not None
    assert round(finding.gain.high_ratio, 6) == 0.3
