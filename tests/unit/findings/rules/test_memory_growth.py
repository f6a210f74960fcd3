"""Memory that grows steadily by a tenth is told, with how long there will be enough."""

from __future__ import annotations

from dataclasses import replace

from tests.support.subjects import GIB, MIB, WHOLE_NS, found, growth, machine, process
from tfprobe.analysis.memory.host_memory import GrowthVerdict
from tfprobe.findings.finding import Severity
from tfprobe.profile.profile import OwnProfiler

# 103 MiB in the later half, on top of 1 GiB.
LEAKING = machine(
    resident_bytes=GIB + 103 * MIB,
    growth=growth(103 * MIB / 50),
    limit_bytes=1024 * GIB,
)


def test_a_tenth_more_is_told() -> None:
    """Far from any limit it is a warning."""
    finding = found("memory_growth", processes=[process(machine=LEAKING)])

    assert finding is not None
    assert finding.severity is Severity.WARNING
    assert finding.evidence[0].size_bytes == round(103 * MIB / 50)


def test_less_is_not() -> None:
    """Allocators take a little more now and then."""
    fine = replace(LEAKING, growth=growth(102 * MIB / 50))

    assert found("memory_growth", processes=[process(machine=fine)]) is None


def test_a_warm_up_is_not() -> None:
    """A cache that fills goes up and stays."""
    fine = replace(LEAKING, growth=growth(103 * MIB / 50, GrowthVerdict.WARMING_UP))

    assert found("memory_growth", processes=[process(machine=fine)]) is None


def test_a_near_end_is_critical() -> None:
    """Where ten times the steps so far would not fit, the job will not reach its end."""
    near = replace(LEAKING, limit_bytes=GIB + GIB // 2)

    finding = found("memory_growth", processes=[process(machine=near)])

    assert finding is not None
    assert finding.severity is Severity.CRITICAL
    assert any("more steps" in each.text for each in finding.evidence)


def test_what_an_open_profiler_records_is_its_own() -> None:
    """Its finding says by how much memory grows."""
    profiler = OwnProfiler(20, WHOLE_NS, "train.py", 7)
    profiled = process(machine=LEAKING, own_profiler=profiler)

    assert found("memory_growth", processes=[profiled]) is None
    finding = found("own_profiler", processes=[profiled])
    assert finding is not None
    assert finding.evidence[-1].size_bytes == round(103 * MIB / 50)
