"""Numbers read the same in a terminal and on a page; tests/web asks the pages the same cases."""

from __future__ import annotations

import math

import pytest

from tests.support.number_cases import NUMBER_CASES
from tfprobe.report.format import numbers

FORMATTERS = {
    "time": numbers.duration,
    "bytes": numbers.size,
    "rate": numbers.rate,
    "flops": numbers.flops,
    "large": numbers.large,
    "count": numbers.count,
    "ordinal": numbers.ordinal,
    "digits": numbers.digits,
    "plain": numbers.plain,
    "percent": numbers.percent,
    "signed": numbers.signed_percent,
}


def test_every_formatter_has_cases():
    """A kind of number that nobody wrote cases for could read differently on a page."""
    assert set(FORMATTERS) == set(NUMBER_CASES)


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [(kind, *case) for kind, cases in NUMBER_CASES.items() for case in cases],
)
def test_numbers_read_as_the_cases_say(kind, value, text):
    """Three significant digits and the unit a person would choose; only nothing is written as 0."""
    assert FORMATTERS[kind](value) == text


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("kind", sorted(set(NUMBER_CASES) - {"ordinal"}))
def test_what_is_no_number_is_written_as_nothing(kind, value):
    """A division by zero in a damaged recording shows neither "nan" nor "inf"."""
    assert FORMATTERS[kind](value) == numbers.NOTHING
