"""The dearest type of op is told from a fifth of the time on, without alarm."""

from __future__ import annotations

from tests.support.subjects import found, gpu_ops, loop, ops, use
from tfprobe.findings.finding import Severity


def test_a_fifth_of_the_time_is_told() -> None:
    """2 ms of each step of 8 ms, which are four fifths of the loop."""
    finding = found("expensive_ops", loop(ops=ops(host=(use("Conv2D", 2.0),))))

    assert finding is not None
    assert (finding.severity, finding.evidence[0].node) == (Severity.INFO, "layer/Conv2D")
    assert round(finding.gain.high_ratio, 6) == 0.2


def test_less_is_not() -> None:
    """Nothing stands out."""
    assert found("expensive_ops", loop(ops=ops(host=(use("Conv2D", 1.99),)))) is None


def test_kernels_count_where_there_are_some() -> None:
    """The host only schedules them."""
    made = gpu_ops(host=(use("Conv2D", 7.0),), device=(use("MatMul", 1.0),))

    assert found("expensive_ops", loop(ops=made)) is None


def test_most_is_more_than_half() -> None:
    """Of a step of 8 ms; what is less takes a good part."""
    half = found("expensive_ops", loop(ops=ops(host=(use("Conv2D", 4.0),))))
    more = found("expensive_ops", loop(ops=ops(host=(use("Conv2D", 4.1),))))

    assert half is not None
    assert more is not None
    assert half.title == "Conv2D takes a significant part of a step"
    assert more.title == "Conv2D takes most of a step"
