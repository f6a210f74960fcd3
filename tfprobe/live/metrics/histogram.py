"""Turn the 768 buckets of a steps.bin into the buckets of a classic histogram, none interpolated.

Native histograms are not offered: Prometheus takes them in its protobuf format alone, which
prometheus-client does not write, and their bounds (powers of 2 ** (1 / 2 ** schema)) are not ours,
which are linear within an octave.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tfprobe.errors import Missing
from tfprobe.live.metrics.family import Histogram
from tfprobe.profile.profile import BUCKETS_PER_OCTAVE, Durations

NS_PER_S = 1_000_000_000
# 131 us to 1100 s: below, a step is hardly more than the call; above, nobody waits for the next.
_OCTAVES = range(17, 41)
_HALF_OCTAVE = BUCKETS_PER_OCTAVE // 2
_FIRST = _OCTAVES.start * BUCKETS_PER_OCTAVE
_LAST = (_OCTAVES.stop - 1) * BUCKETS_PER_OCTAVE
# Each is the lower bound of a bucket of ours: 2^k ns or 1.5 * 2^k ns. A quantile interpolated
# between two of them is off by less than half; twice as many series would halve that.
_BUCKETS = np.arange(_FIRST, _LAST + 1, _HALF_OCTAVE)
BOUNDS_NS: tuple[int, ...] = tuple(
    (2 + bucket % BUCKETS_PER_OCTAVE // _HALF_OCTAVE) << (bucket // BUCKETS_PER_OCTAVE - 1)
    for bucket in _BUCKETS.tolist()
)
BOUNDS_S: tuple[float, ...] = tuple(bound / NS_PER_S for bound in BOUNDS_NS)
# More steps than this no process has lived to make, and their sum still fits 64 bits.
_MOST_STEPS = 1 << 53


def histogram(parts: Sequence[Durations]) -> Histogram | Missing:
    """Return the histogram of some durations together.

    A duration of exactly a bound, to the ns, counts above it: buckets of ours end before theirs.
    """
    if sum(float(part.buckets.sum(dtype=np.float64)) for part in parts) > _MOST_STEPS:
        return Missing("the counts of steps.bin make no sense")
    buckets = sum((part.buckets for part in parts), start=np.zeros(1, dtype=np.int64))
    below = np.cumsum(buckets)[_BUCKETS - 1]
    sum_ns = sum(max(part.sum_ns, 0) for part in parts)
    return Histogram((*below.tolist(), int(buckets.sum())), sum_ns / NS_PER_S)
