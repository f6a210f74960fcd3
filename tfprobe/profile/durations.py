"""Hold how long many things took: exact moments, a log-linear histogram, its bounds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]

# 16 buckets an octave: a bucket is at most 1/16 of its lower bound wide.
BUCKETS_PER_OCTAVE = 16
BUCKET_WIDTH_RATIO = 1 / BUCKETS_PER_OCTAVE


@dataclass(frozen=True, slots=True)
class Durations:
    """Durations in ns. `min_ns` and `max_ns` mean nothing where `count` is 0."""

    count: int
    sum_ns: int
    min_ns: int
    max_ns: int
    buckets: Int64s


def bucket_bounds_ns(bucket: int) -> tuple[float, float]:
    """Return the lower bound and the upper bound (exclusive) of a histogram bucket."""
    bits = (np.arange(bucket, bucket + 2, dtype=np.int64) + (1023 << 4)) << 48
    lower, upper = bits.view(np.float64)
    return float(lower), float(upper)


def bucket_of(durations_ns: Int64s) -> Int64s:
    """Return the histogram bucket of each duration in ns; below 1 ns it is that of 1 ns."""
    bits = np.maximum(durations_ns, 1).astype(np.float64).view(np.int64)
    buckets: Int64s = (bits >> 48) - (1023 << 4)
    return buckets
