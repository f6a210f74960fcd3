"""Gather what the loop of a thread took, without what does not go on as long as it does.

A loop is a thread from the start of its first step to the end of its last. What recording added is
no part of it, nor what the very first steps took beyond the usual: they trace, allocate and fill
caches once, and a job that is worth advice runs longer than its recording.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from tfprobe.analysis.steps.step_window import gaps_around_traces, remember
from tfprobe.profile.profile import Work
from tfprobe.profile.tables import Flags, Int64s

ThreadKey = tuple[int, str]


@dataclass(frozen=True, slots=True)
class Apart:
    """What steps and gaps of a work took beyond the usual because of recording, or as the first.

    `elsewhere_ns` is what is told of these gaps and is another work's: steps of it on this thread
    that were traced, and what follows them.
    """

    recorded_step_ns: int
    recorded_gap_ns: int
    first_ns: int
    elsewhere_ns: int = 0

    @property
    def total_ns(self) -> int:
        return self.recorded_step_ns + self.recorded_gap_ns - self.elsewhere_ns + self.first_ns


def apart(work: Work, works: tuple[Work, ...]) -> Apart:
    """Return what is to be set apart of a work, as far as its steps are remembered."""
    remembered = remember(work, works)
    steps, gaps = remembered.step_ns, remembered.gap_ns
    disturbed = ~remembered.gap_counts
    disturbed[:1] = False
    first = remembered.numbers == 0
    elsewhere = disturbed & gaps_around_traces(work, works)
    return Apart(
        recorded_step_ns=_excess_ns(steps, remembered.counts, remembered.sampled),
        recorded_gap_ns=_excess_ns(gaps, remembered.gap_counts, disturbed),
        first_ns=_excess_ns(steps, remembered.counts, first & ~remembered.sampled),
        elsewhere_ns=_excess_ns(gaps, remembered.gap_counts, elsewhere),
    )


def thread_times_ns(works: Iterable[Work], aparts: Iterable[Apart]) -> dict[ThreadKey, int]:
    """Return the time of the loop of each thread."""
    bounds: dict[ThreadKey, tuple[int, int]] = {}
    apart_ns: dict[ThreadKey, int] = {}
    for work, part in zip(works, aparts, strict=True):
        length_ns = work.times.sum_ns + work.gaps.sum_ns
        end_ns = int(work.recent.end_ns[-1]) if len(work.recent.end_ns) else length_ns
        key = (work.process, work.thread)
        known = bounds.get(key, (end_ns - length_ns, end_ns))
        bounds[key] = (min(known[0], end_ns - length_ns), max(known[1], end_ns))
        apart_ns[key] = apart_ns.get(key, 0) + part.total_ns
    return {key: max(end - start - apart_ns[key], 0) for key, (start, end) in bounds.items()}


def _excess_ns(times_ns: Int64s, usual: Flags, chosen: Flags) -> int:
    if not usual.any() or not chosen.any():
        return 0
    return int(np.maximum(times_ns[chosen] - _median_ns(times_ns[usual]), 0).sum())


def _median_ns(times_ns: Int64s) -> float:
    return float(np.median(times_ns)) if len(times_ns) else 0.0
