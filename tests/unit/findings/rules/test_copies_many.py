"""Many small copies are told where they take time that nothing hides."""

from __future__ import annotations

from tests.support.subjects import MS, found, loop
from tfprobe.analysis.transfers.bus_transfers import StepCopies


def _copies(count: float, bytes_each: float, exposed_ms: float) -> tuple[StepCopies, ...]:
    ns = exposed_ms * MS
    return (StepCopies("host to device", count, count * bytes_each, ns, ns, 0.0, 0.0),)


def test_fifty_small_copies_a_step_are_told() -> None:
    """From 50 on, below 64 KiB each, if they take 3 % of the time."""
    finding = found("copies_many", loop(copies=_copies(50, 1000, 0.3)))

    assert finding is not None
    assert finding.evidence[0].size_bytes == 1000


def test_fewer_are_not() -> None:
    """Forty-nine are within what is usual."""
    assert found("copies_many", loop(copies=_copies(49, 1000, 0.3))) is None


def test_large_ones_are_not() -> None:
    """A large copy takes its time for its bytes."""
    assert found("copies_many", loop(copies=_copies(50, 65_536, 0.3))) is None
