"""Ages and sizes are read with their units, and what is no amount is refused."""

from __future__ import annotations

import pytest

from tfprobe.cli.run_filters import age_ns, size_bytes

SECOND_NS = 10**9


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        *(("90s", 90), ("15m", 900), ("15min", 900), ("12h", 43_200), ("7d", 604_800)),
        *(("2w", 1_209_600), ("1.5h", 5_400), (" 3 d ", 259_200)),
    ],
)
def test_an_age_is_a_number_with_its_unit(text: str, seconds: int) -> None:
    """Seconds, minutes, hours, days and weeks."""
    assert age_ns(text) == seconds * SECOND_NS


@pytest.mark.parametrize(
    ("text", "size"),
    [
        *(("500M", 500 << 20), ("2GiB", 2 << 30), ("1.5GB", 1_500_000_000), ("3b", 3)),
        *(("1K", 1024), ("1kB", 1000), ("1T", 1 << 40)),
    ],
)
def test_a_size_is_a_number_with_its_unit(text: str, size: int) -> None:
    """As du writes them: M and MiB are binary, MB is decimal; case does not matter."""
    assert size_bytes(text) == size


@pytest.mark.parametrize(
    "text",
    [
        *("", "5", "d", "-5d", "0d", "0.0000000000001s", "5y", "3M", "1h30m", "1e3d", "nan d"),
        *("5d\n5d", "１d", "9" * 40 + "d", "99999999999w"),
    ],
)
def test_what_is_no_age_is_refused(text: str) -> None:
    """Nothing, negative, without a unit, of another unit, or older than anything recorded."""
    with pytest.raises(ValueError):
        age_ns(text)


@pytest.mark.parametrize("text", ["", "500", "M", "-1M", "0G", "5X", "5MM", "1e9B", "9999999999T"])
def test_what_is_no_size_is_refused(text: str) -> None:
    """Nothing, negative, without a unit, of an unknown one, or larger than any disk."""
    with pytest.raises(ValueError):
        size_bytes(text)
