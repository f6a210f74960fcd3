"""An accelerator whose memory is at most three tenths used is told, without alarm."""

from __future__ import annotations

from tests.support.subjects import found, process
from tfprobe.analysis.memory.allocator_levels import DeviceMemory
from tfprobe.findings.finding import Severity


def test_three_tenths_are_told() -> None:
    """A larger batch may or may not help: that is for a person to say."""
    finding = found(
        "memory_unused", processes=[process(device_memory=(DeviceMemory("GPU:0", 30, 100),))]
    )

    assert finding is not None
    assert finding.severity is Severity.INFO


def test_more_is_not() -> None:
    """Then there is hardly room for a batch three times as large."""
    used = process(device_memory=(DeviceMemory("GPU:0", 31, 100),))

    assert found("memory_unused", processes=[used]) is None
