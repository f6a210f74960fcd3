"""A series of numbers in one line."""

from __future__ import annotations

import pytest

from tfprobe.report.format.page import sparkline


@pytest.mark.parametrize(
    ("values", "width", "least", "expected"),
    [
        ([0, 7], 10, None, "▁█"),
        ([7, 7], 10, None, "▁▁"),
        ([7, 14], 10, 0, "▅█"),
        ([0, 1, 9, 1], 2, None, "▂█"),
        ([-900, 7], 10, 0, "▁█"),
        ([], 10, None, ""),
    ],
)
def test_bars_go_from_the_least_to_the_most(values, width, least, expected) -> None:
    """Where there is no room for all, the largest of neighbours is shown."""
    assert sparkline(values, width=width, least=least) == expected
