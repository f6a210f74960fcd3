"""Gaps that tfprobe made longer are left out of a comparison, unless few others are left."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.support.profiles import timed_loop
from tfprobe.analysis.steps.step_window import lengthened_gaps

MS = 1_000_000


@pytest.mark.parametrize(("watched", "left_out"), [(4, {3, 6, 7, 8, 9}), (5, {3})])
def test_watched_gaps_count_where_most_were_watched(watched: int, left_out: set[int]) -> None:
    """Of ten gaps one lies behind a trace: of nine others four may be missed, not five."""
    recent = timed_loop([MS] * 11, sampled=(2,)).recent
    behind = np.isin(np.arange(11), range(5, 5 + watched))

    found = lengthened_gaps(replace(recent, watched=behind))

    assert set(np.flatnonzero(found).tolist()) == left_out
