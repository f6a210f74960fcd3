"""32-bit products are told where less than a tenth of device compute is narrow."""

from __future__ import annotations

from tests.support.subjects import MS, found, loop
from tfprobe.analysis.ops.device_ops import Precision


def test_less_than_a_tenth_in_16_bits_is_told() -> None:
    """The bound is the time of those ops that have a faster form."""
    wide = Precision(narrow_ns=0.09 * MS, wide_ns=0.91 * MS, eligible_ns=0.5 * MS)

    finding = found("precision_wide", loop(precision=wide))

    assert finding is not None
    assert round(finding.gain.high_ratio, 6) == 0.05


def test_a_tenth_is_not() -> None:
    """Mixed precision is on."""
    mixed = Precision(narrow_ns=0.1 * MS, wide_ns=0.9 * MS, eligible_ns=0.5 * MS)

    assert found("precision_wide", loop(precision=mixed)) is None


def test_compute_without_products_is_not() -> None:
    """Other ops are bound by memory, and keep 32 bits under mixed precision."""
    wide = Precision(narrow_ns=0.0, wide_ns=1.0 * MS, eligible_ns=0.0)

    assert found("precision_wide", loop(precision=wide)) is None
