"""Charge each moment of many segments of time to the first of those who claim it. Knows no parts.

All segments are laid behind each other on one axis, so that thousands of steps take one sort.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tfprobe.model.tables import Flags, Int64s
from tfprobe.views.intervals import NONE, Intervals, union

# The rank of moments that nobody claims.
NOBODY = -1
_LONGEST_NS = 2.0**61


class Claims(NamedTuple):
    """Intervals in segments, from the start of each; what lies outside of a segment is cut.

    Of several claims to a moment that with the least `rank` has it.
    """

    segment: Int64s
    rank: Int64s
    start_ns: Int64s
    end_ns: Int64s


class Stretches(NamedTuple):
    """Who has what: disjoint, in order of time, and together all of the segments."""

    segment: Int64s
    rank: Int64s
    start_ns: Int64s
    end_ns: Int64s

    @property
    def length_ns(self) -> Int64s:
        """Return how long each is."""
        length: Int64s = self.end_ns - self.start_ns
        return length


def charge(length_ns: Int64s, claims: Claims) -> Stretches:
    """Return the stretches of segments of these lengths."""
    if len(length_ns) > 1 and length_ns.sum(dtype=np.float64) > _LONGEST_NS:
        return _halved(length_ns, claims)
    # Segments do not touch: what ends with one does not go on in the next.
    ends = np.cumsum(length_ns + 1)
    offset = ends - length_ns - 1
    merged, rank = _merged(claims, length_ns, offset)
    at = np.concatenate([merged.start_ns, merged.end_ns, offset, offset + length_ns])
    order = np.argsort(at, kind="stable")
    at, count = at[order], len(rank)
    first = np.full(len(at), NOBODY, dtype=np.int64)
    # The later overwrites: the one with the least rank comes last.
    for number in np.flatnonzero(np.bincount(rank))[::-1].tolist():
        mine = np.flatnonzero(rank == number)
        first[_holds(order, mine, mine + count)] = number
    of_segments = 2 * count + np.arange(len(offset))
    lasts = _holds(order, of_segments, of_segments + len(offset))[:-1] & (at[1:] > at[:-1])
    begins = at[:-1][lasts]
    segment = np.searchsorted(offset, begins, side="right") - 1
    return Stretches(
        segment=segment,
        rank=first[:-1][lasts],
        start_ns=begins - offset[segment],
        end_ns=at[1:][lasts] - offset[segment],
    )


def _halved(length_ns: Int64s, claims: Claims) -> Stretches:
    """Charge two halves by themselves: damaged times may be too long for one axis."""
    half = len(length_ns) // 2
    is_first = claims.segment < half
    mine, others = (Claims(*(each[chosen] for each in claims)) for chosen in (is_first, ~is_first))
    first = charge(length_ns[:half], mine)
    second = charge(length_ns[half:], others._replace(segment=others.segment - half))
    second = second._replace(segment=second.segment + half)
    return Stretches(*map(np.concatenate, zip(first, second, strict=True)))


def _merged(claims: Claims, length_ns: Int64s, offset: Int64s) -> tuple[Intervals, Int64s]:
    """Return what is claimed at each rank, on the axis of all segments."""
    most_ns, base = length_ns[claims.segment], offset[claims.segment]
    start_ns = base + np.clip(claims.start_ns, 0, most_ns)
    end_ns = base + np.clip(claims.end_ns, 0, most_ns)
    ranks = np.flatnonzero(np.bincount(claims.rank))
    found = [
        union(start_ns[mine], end_ns[mine])
        for mine in (np.flatnonzero(claims.rank == rank) for rank in ranks.tolist())
    ]
    merged = Intervals(*map(np.concatenate, zip(NONE, *found, strict=True)))
    return merged, np.repeat(ranks, [len(each.start_ns) for each in found])


def _holds(order: Int64s, begins: Int64s, ends: Int64s) -> Flags:
    """Say after which events, in order, one that began at some of them has not ended."""
    change = np.zeros(len(order), dtype=np.int8)
    change[begins], change[ends] = 1, -1
    held: Flags = np.cumsum(change[order], dtype=np.int8) > 0
    return held
