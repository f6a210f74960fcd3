"""Copies of pageable memory are told where they take time that nothing hides."""

from __future__ import annotations

from tests.support.subjects import MS, found, loop
from tfprobe.analysis.transfers.bus_transfers import StepCopies


def _copies(pageable_ms: float) -> tuple[StepCopies, ...]:
    ns = pageable_ms * MS
    return (StepCopies("host to device", 2, 10**6, ns, ns, 2, ns, "images"),)


def test_three_percent_are_told() -> None:
    """0.3 ms of each cycle of 10 ms: its 8 ms of step are four fifths of the loop."""
    finding = found("copies_pageable", loop(copies=_copies(0.3)))

    assert finding is not None
    assert round(finding.gain.high_ratio, 6) == 0.03
    assert finding.evidence[0].node == "images"


def test_less_is_not() -> None:
    """Small inputs may come from anywhere."""
    assert found("copies_pageable", loop(copies=_copies(0.29))) is None
