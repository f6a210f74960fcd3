"""What the processes of an open run did together, computed once for all pages."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tfprobe.analysis.distributed import rank_comparison, rank_parts, synchronization_events
from tfprobe.analysis.distributed.aligned import Aligned, aligned
from tfprobe.analysis.distributed.clocks import Clocks, clocks
from tfprobe.analysis.distributed.rank_comparison import RankComparison
from tfprobe.analysis.distributed.synchronization_events import SynchronizationEvents
from tfprobe.profile.profile import Process, Profile
from tfprobe.profile.tables import T
from tfprobe.web.opened import OpenRun


def events_of(run: OpenRun) -> SynchronizationEvents:
    """Return where processes met, by the clock of each."""
    return run.made("meetings", lambda: synchronization_events.find_events(run.profile))


def clocks_of(run: OpenRun) -> Clocks:
    """Return how the clocks of processes differ."""
    return run.made("clocks", lambda: clocks(run.profile.processes, events_of(run)))


def aligned_of(run: OpenRun) -> Aligned:
    """Return the profile on the clock of the reference."""
    return run.made("aligned", lambda: aligned(run.profile, events_of(run), clocks_of(run)))


def across_of(run: OpenRun) -> RankComparison:
    """Return the comparison of the processes that `tfprobe ranks` shows."""
    return run.made("across", lambda: _across(run.profile))


def _across(profile: Profile) -> RankComparison:
    return rank_comparison.compare_parts(
        [rank_parts.rank_part(alone(profile, process)) for process in profile.processes]
    )


def alone(profile: Profile, process: Process) -> Profile:
    """Return what a profile has of one of its processes, as if it were the only one.

    Rows of a process stand together, so that none of the others is looked at.
    """
    own = [capture for capture in profile.captures if capture.process == process.index]
    first = own[0].index if own else 0
    return replace(
        profile,
        processes=(replace(process, index=0),),
        loops=tuple(
            replace(loop, process=0) for loop in profile.loops if loop.process == process.index
        ),
        captures=tuple(replace(each, process=0, index=each.index - first) for each in own),
        executions=_of(profile.executions, first, len(own)),
        spans=_of(profile.spans, first, len(own)),
        allocations=_of(profile.allocations, first, len(own)),
        problems=(),
    )


def _of(table: T, first: int, count: int) -> T:
    begin, end = np.searchsorted(table.capture, [first, first + count]).tolist()
    rows = table.at(np.arange(begin, end))
    return replace(rows, capture=(rows.capture - first).astype(rows.capture.dtype))
