"""Histograms for Prometheus are exact: every bound is one of steps.bin's own."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.support.profiles import durations
from tfprobe.errors import Missing
from tfprobe.live.metrics.family import BOUNDS_NS, BOUNDS_S, Histogram, histogram
from tfprobe.profile.profile import Durations, bucket_bounds_ns


def found(*values_ns: int) -> Histogram:
    told = histogram([durations(values_ns)])
    assert isinstance(told, Histogram)
    return told


def test_every_bound_is_the_bound_of_a_bucket_of_steps_bin():
    """No count is interpolated."""
    ours = {bucket_bounds_ns(bucket)[0] for bucket in range(768)}

    assert set(BOUNDS_NS) <= ours


def test_bounds_are_half_octaves_from_131_us_to_1100_s():
    """What is between is told to within a third."""
    ratios = {round(high / low, 3) for low, high in itertools.pairwise(BOUNDS_NS)}

    assert (BOUNDS_S[0], BOUNDS_S[-1]) == (0.000131072, 1099.511627776)
    assert ratios == {1.5, 1.333}


@pytest.mark.parametrize("bound", BOUNDS_NS)
def test_a_step_counts_below_the_bounds_that_it_is_shorter_than(bound: int):
    """A ns less than a bound is below it; the bound itself, to the ns, is not."""
    at = BOUNDS_NS.index(bound)

    told = found(bound - 1, bound)

    assert told.cumulative[at] == 1
    assert told.cumulative[at + 1] == 2
    assert all(count == 0 for count in told.cumulative[:at])


def test_what_is_longer_than_the_last_bound_is_in_the_last_bucket():
    """A step of an hour counts, and so does one of a nanosecond."""
    told = found(1, 3_600_000_000_000)

    assert (told.cumulative[0], told.cumulative[-2], told.cumulative[-1]) == (1, 1, 2)
    assert told.sum_s == pytest.approx(3600.000000001)


def test_threads_are_counted_together():
    """A loop that runs in several threads is one to whoever watches it."""
    told = histogram([durations([1_000_000] * 3), durations([2_000_000])])

    assert isinstance(told, Histogram)
    assert (told.count, told.sum_s) == (4, 0.005)


def test_counts_that_make_no_sense_are_missing():
    """A file overwritten with garbage gives no histogram, never one that goes down."""
    garbage = np.full(768, 2**62, dtype=np.int64)

    assert isinstance(histogram([Durations(1, 1, 1, 1, garbage)]), Missing)
