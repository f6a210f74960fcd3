"""Amounts of documents: curves break where nothing was sampled."""

from __future__ import annotations

from tfprobe.analysis.core.statistics import known_samples, level
from tfprobe.errors import Missing
from tfprobe.web.values import curve


def test_a_curve_breaks_where_nothing_was_sampled() -> None:
    """Steps paused, and with them the samples: a null begins that time."""
    found = level(known_samples([0, 10, 20, 30, 600, 610], [1, 2, 3, 4, 5, 6]))
    assert not isinstance(found, Missing)

    document = curve(found)

    assert document["at_unix_ns"] == [0, 10, 20, 30, 40, 600, 610]
    assert document["values"] == [1, 2, 3, 4, None, 5, 6]


def test_a_curve_of_regular_samples_is_whole() -> None:
    """One that came a little late is no silence."""
    found = level(known_samples([0, 10, 20, 55, 65], [1, 2, 3, 4, 5]))
    assert not isinstance(found, Missing)

    assert curve(found)["values"] == [1, 2, 3, 4, 5]
