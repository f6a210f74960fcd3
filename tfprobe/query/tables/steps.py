"""Make the rows of `steps`, which are many, a work at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from tfprobe.errors import Missing
from tfprobe.profile.profile import Profile, Work
from tfprobe.query.tables import cells
from tfprobe.query.tables.cells import Array
from tfprobe.query.tables.facts import Place


def step_columns(profile: Profile, place: Place) -> Iterator[Mapping[str, Array]]:
    """Give the columns of the remembered steps of each work."""
    (process,) = profile.processes
    shift_ns = process.unix_minus_monotonic_ns
    for work in profile.works:
        count = len(work.recent.start_ns)
        if not count:
            continue
        yield {
            "run": _same_text(place.run, count),
            "process": _same(place.process, count),
            "host": _same_text(process.host, count),
            "rank": _same(process.rank, count),
            "work": _same(work.index, count),
            **_times(work, shift_ns),
        }


def _times(work: Work, shift_ns: int | Missing) -> Mapping[str, Array]:
    recent = work.recent
    count = len(recent.start_ns)
    is_lost = isinstance(shift_ns, Missing)
    start_ns = recent.start_ns + (0 if isinstance(shift_ns, Missing) else shift_ns)
    gap_ns = np.zeros(count, dtype=np.int64)
    gap_ns[1:] = recent.start_ns[1:] - recent.end_ns[:-1]
    return {
        "step": np.arange(recent.first_step, recent.first_step + count, dtype=np.int64),
        "start_ns": np.ma.masked_array(start_ns, mask=np.full(count, is_lost)),
        "duration_ns": recent.end_ns - recent.start_ns,
        "gap_ns": np.ma.masked_array(gap_ns, mask=~recent.has_gap),
        "sampled": recent.sampled,
        "raised": recent.raised,
    }


def _same(value: int | None, count: int) -> Array:
    return np.ma.masked_array(
        np.full(count, value or 0, dtype=np.int64), mask=np.full(count, value is None)
    )


def _same_text(text: str, count: int) -> Array:
    found = np.empty(count, dtype=object)
    found[:] = cells.plain(text)
    return found
