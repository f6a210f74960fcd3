"""Memory that grows steadily by a tenth is told, with how long there will be enough."""

from __future__ import annotations

from dataclasses import replace

from tests.support.signals import GIB, MIB, found, machine, process
from tfprobe.advice.finding import Severity

LEAKING = machine(
    first_resident_bytes=GIB,
    resident_bytes=GIB + GIB // 10 + 1,
    growth_bytes_per_step=2.0 * MIB,
    steady_ratio=0.9,
    limit_bytes=1024 * GIB,
)


def test_a_tenth_more_is_told() -> None:
    """Far from any limit it is a warning."""
    finding = found("memory_growth", processes=[process(machine=LEAKING)])

    assert finding is not None
    assert finding.severity is Severity.WARNING
    assert finding.evidence[0].size_bytes == 2 * MIB


def test_less_is_not() -> None:
    """Allocators take a little more now and then."""
    fine = replace(LEAKING, resident_bytes=GIB + GIB // 10 - MIB)

    assert found("memory_growth", processes=[process(machine=fine)]) is None


def test_unsteady_growth_is_not() -> None:
    """A cache that fills goes up and stays."""
    fine = replace(LEAKING, steady_ratio=0.89)

    assert found("memory_growth", processes=[process(machine=fine)]) is None


def test_a_near_end_is_critical() -> None:
    """Where ten times the steps so far would not fit, the job will not reach its end."""
    near = replace(LEAKING, limit_bytes=GIB + GIB // 2)

    finding = found("memory_growth", processes=[process(machine=near)])

    assert finding is not None
    assert finding.severity is Severity.CRITICAL
    assert any("more steps" in each.text for each in finding.evidence)
