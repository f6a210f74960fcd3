"""Say of captures that are all the steps of a work what steps.bin says of an agent's."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from tfprobe.profile.durations import Durations, bucket_of
from tfprobe.profile.profile import Capture, RecentSteps

_NO_TIMES = np.zeros(0, dtype=np.int64)
NO_DURATIONS = Durations(0, 0, 0, 0, _NO_TIMES)
NO_STEPS = RecentSteps(
    0, _NO_TIMES, _NO_TIMES, _NO_TIMES.astype(np.bool_), _NO_TIMES.astype(np.bool_)
)


def times_of(captures: Sequence[Capture]) -> Durations:
    """Return how long the steps took, of which there is one at least."""
    return _durations([each.duration_ns for each in captures])


def gaps_of(captures: Sequence[Capture]) -> Durations:
    """Return how long it was from the end of each step to the next."""
    pairs = itertools.pairwise(captures)
    gaps_ns = [max(after.start_ns - one.start_ns - one.duration_ns, 0) for one, after in pairs]
    return _durations(gaps_ns) if gaps_ns else NO_DURATIONS


def recent_of(captures: Sequence[Capture]) -> RecentSteps:
    """Return the steps as those of a run, none where a number is missing."""
    if not are_numbered(captures):
        return NO_STEPS
    first, count = captures[0].step, len(captures)
    starts_ns = np.array([each.start_ns for each in captures], dtype=np.int64)
    ends_ns = starts_ns + np.array([each.duration_ns for each in captures], dtype=np.int64)
    sampled = np.ones(count, dtype=np.bool_)
    return RecentSteps(first, starts_ns, ends_ns, sampled, ~sampled)


def are_numbered(captures: Sequence[Capture]) -> bool:
    """Say whether each step has the number after that of the step before."""
    first = captures[0].step
    return [each.step for each in captures] == list(range(first, first + len(captures)))


def _durations(durations_ns: Sequence[int]) -> Durations:
    buckets = np.bincount(bucket_of(np.array(durations_ns, dtype=np.int64))).astype(np.int64)
    return Durations(
        len(durations_ns), sum(durations_ns), min(durations_ns), max(durations_ns), buckets
    )
