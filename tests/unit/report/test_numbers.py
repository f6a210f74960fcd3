"""Numbers have three significant digits and a unit."""

from __future__ import annotations

import pytest

from tfprobe.report.format import numbers


@pytest.mark.parametrize(
    ("time_ns", "text"),
    [
        (0, "0 ns"),
        (999, "999 ns"),
        (999.7, "1.00 µs"),
        (1_234, "1.23 µs"),
        (99_960, "100 µs"),
        (999_900, "1.00 ms"),
        (45_600_000_000, "45.6 s"),
        (725_000_000_000, "12 min 5 s"),
        (11_040_000_000_000, "3 h 4 min"),
    ],
)
def test_times(time_ns, text):
    """A time is shown in the unit a person would choose."""
    assert numbers.duration(time_ns) == text


@pytest.mark.parametrize(
    ("size_bytes", "text"), [(0, "0 B"), (1000, "1000 B"), (1536, "1.50 KiB"), (2**40, "1.00 TiB")]
)
def test_sizes(size_bytes, text):
    """Sizes are in binary units."""
    assert numbers.size(size_bytes) == text


@pytest.mark.parametrize(
    ("ratio", "text"), [(0, "0.0 %"), (0.0001, "<0.1 %"), (0.0123, "1.2 %"), (1, "100.0 %")]
)
def test_percents(ratio, text):
    """What is not nothing is never written as nothing."""
    assert numbers.percent(ratio) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(1, "1st"), (2, "2nd"), (3, "3rd"), (4, "4th"), (11, "11th"), (12, "12th"), (13, "13th"),
     (20, "20th"), (21, "21st"), (903, "903rd"), (1_012, "1,012th"), (1_022, "1,022nd")],
)  # fmt: skip
def test_places(value, text):
    """As people write them."""
    assert numbers.ordinal(value) == text
