"""Memory that is nine tenths full is told, of the host and of devices."""

from __future__ import annotations

from tests.support.subjects import GIB, found, machine, process
from tfprobe.analysis.memory.allocator_levels import DeviceMemory
from tfprobe.errors import Missing
from tfprobe.findings.finding import Severity


def test_nine_tenths_of_the_host_are_told() -> None:
    """It has no gain in time, and says so."""
    full = process(machine=machine(peak_bytes=9 * GIB, limit_bytes=10 * GIB))

    finding = found("memory_full", processes=[full])

    assert finding is not None
    assert finding.severity is Severity.WARNING
    assert isinstance(finding.gain, Missing)


def test_less_is_not() -> None:
    """There is still room."""
    fine = process(machine=machine(peak_bytes=9 * GIB - 1, limit_bytes=10 * GIB))

    assert found("memory_full", processes=[fine]) is None


def test_the_fullest_memory_is_named() -> None:
    """Of several devices and the host."""
    memories = (DeviceMemory("GPU:0", 5, 10), DeviceMemory("GPU:1", 10, 10))

    finding = found("memory_full", processes=[process(device_memory=memories)])

    assert finding is not None
    assert "GPU:1" in finding.title
