"""Float operations are written in decimal units."""

from __future__ import annotations

import pytest

from tfprobe.report.format import numbers


@pytest.mark.parametrize(
    ("amount", "expected"),
    [
        (0, "0 FLOP"),
        (999, "999 FLOP"),
        (1_000, "1.00 kFLOP"),
        (1_568_000, "1.57 MFLOP"),
        (999_600_000, "1.00 GFLOP"),
        (1_230_000_000, "1.23 GFLOP"),
        (45_600_000_000_000, "45.6 TFLOP"),
        (789 * 10**15, "789 PFLOP"),
    ],
)
def test_flops_have_three_digits(amount, expected):
    """Three significant digits and the unit that fits."""
    found = numbers.flops(amount)

    assert expected == found
