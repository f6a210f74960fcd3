"""The bounds of a bucket are those of the durations that fall into it."""

from __future__ import annotations

import numpy as np
import pytest

from tfprobe.profile.profile import BUCKET_WIDTH_RATIO, bucket_bounds_ns
from tfprobe.runs.process_folder.steps import bucket_of


@pytest.mark.parametrize("duration_ns", [1, 2, 17, 1_000, 123_456_789, 10**14])
def test_a_duration_lies_in_its_bucket(duration_ns):
    """What the agent counts into a bucket, a reader finds between its bounds."""
    bucket = int(bucket_of(np.array([duration_ns]))[0])

    lower, upper = bucket_bounds_ns(bucket)

    assert lower <= duration_ns < upper
    assert upper - lower <= lower * BUCKET_WIDTH_RATIO
