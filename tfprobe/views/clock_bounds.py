"""Bound how far one clock is ahead of another, where each of many moments bounds it from one side.

The difference is taken to be a straight line over time: two clocks that each run evenly. A line is
told by its values at the first and the last moment, and those that no moment rules out are a convex
polygon in these two numbers. Duda, Harrus, Haddad and Bernard (Estimating Global Time in
Distributed Systems, 1987) draw the same as a corridor between two hulls.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
# Value at the first moment, value at the last one, in ns.
Line = tuple[float, float]

# Rounding of numbers that are hours in ns; no clock is read as finely.
_ROUNDING_NS = 1.0


class Bounds(NamedTuple):
    """Limits of a difference of clocks. `share` is the part of the time from first to last, 0..1;
    the difference is at least `low_ns` and at most `high_ns` there, infinite where untold.
    """

    share: Floats
    low_ns: Floats
    high_ns: Floats

    def only(self, chosen: npt.NDArray[np.bool_]) -> Bounds:
        """Return the limits where `chosen` is true."""
        return Bounds(self.share[chosen], self.low_ns[chosen], self.high_ns[chosen])

    def excess_ns(self, line: Line) -> Floats:
        """Return how far a line is outside each of the limits, 0 where it is inside."""
        at_ns = line[0] + self.share * (line[1] - line[0])
        return np.maximum(np.maximum(self.low_ns - at_ns, at_ns - self.high_ns), 0)


def corners(bounds: Bounds, most_change_ns: float) -> Floats:
    """Return the corners of the polygon of all lines inside all limits; none where there is no such
    line.

    A line changes by at most `most_change_ns` from the first moment to the last. Rows are corners,
    columns values at the first and the last moment.
    """
    low_ns = float(bounds.low_ns.max()) - most_change_ns
    high_ns = float(bounds.high_ns.min()) + most_change_ns
    far = (high_ns - low_ns) / 2 + _ROUNDING_NS
    if not 0 <= far < np.inf:
        return np.empty((0, 2))
    # Around the middle numbers are small, so that they are not rounded.
    middle_ns = (high_ns + low_ns) / 2
    moved = Bounds(bounds.share, bounds.low_ns - middle_ns, bounds.high_ns - middle_ns)
    found = np.array([[-far, -far], [far, -far], [far, far], [-far, far]])
    for weight, limit in _half_planes(moved, most_change_ns):
        found = _cut(found, weight, limit)
        if not len(found):
            break
    return found + middle_ns


def nearest(polygon: Floats, line: Line) -> Line:
    """Return the line itself where it is inside the polygon, else one on the edge towards it."""
    centre = polygon.mean(axis=0)
    wanted = np.array(line)
    edges = np.roll(polygon, -1, axis=0) - polygon
    # Corners come counter-clockwise: what lies to the right of an edge is outside.
    normals = np.stack((edges[:, 1], -edges[:, 0]), axis=1)
    at_centre = ((centre - polygon) * normals).sum(axis=1)
    at_wanted = ((wanted - polygon) * normals).sum(axis=1)
    out = at_wanted > 0
    if not out.any():
        return line
    inside = at_centre[out] / (at_centre[out] - at_wanted[out])
    first, last = centre + float(np.clip(inside.min(), 0, 1)) * (wanted - centre)
    return float(first), float(last)


def _half_planes(bounds: Bounds, most_change_ns: float) -> list[tuple[tuple[float, float], float]]:
    """Return each limit as weights of both values, and what their sum is at most."""
    found = [((-1.0, 1.0), most_change_ns), ((1.0, -1.0), most_change_ns)]
    for sign, limit_ns in ((1.0, bounds.high_ns), (-1.0, -bounds.low_ns)):
        kept = _tightest(bounds.share, limit_ns, most_change_ns)
        for share, limit in zip(bounds.share[kept].tolist(), limit_ns[kept].tolist(), strict=True):
            found.append(((sign * (1 - share), sign * share), limit + _ROUNDING_NS))
    return found


def _tightest(share: Floats, limit_ns: Floats, most_change_ns: float) -> npt.NDArray[np.intp]:
    """Return which upper limits say more than all others, for lines that change by so much.

    Another limit holds at this moment, too, and is wider there by what a line may change from there
    to here.
    """
    order = np.argsort(share, kind="stable")
    slope_ns = most_change_ns * share[order]
    limit = limit_ns[order]
    from_left = np.minimum.accumulate(limit - slope_ns) + slope_ns
    from_right = np.minimum.accumulate((limit + slope_ns)[::-1])[::-1] - slope_ns
    tight = np.isfinite(limit) & (limit <= np.minimum(from_left, from_right) + _ROUNDING_NS)
    found = order[tight]
    # Equal ones of one moment say the same.
    _, first = np.unique(np.stack((share[found], limit_ns[found])), axis=1, return_index=True)
    return np.asarray(found[np.sort(first)])


def _cut(polygon: Floats, weight: tuple[float, float], limit: float) -> Floats:
    """Return the part of a convex polygon where the weighted sum is at most `limit`."""
    excess = polygon @ np.array(weight) - limit
    inside = excess <= 0
    if inside.all():
        return polygon
    if not inside.any():
        return polygon[:0]
    following, excess_there = np.roll(polygon, -1, axis=0), np.roll(excess, -1)
    found = []
    for at in range(len(polygon)):
        if inside[at]:
            found.append(polygon[at])
        if inside[at] != (excess_there[at] <= 0):
            part = excess[at] / (excess[at] - excess_there[at])
            found.append(polygon[at] + part * (following[at] - polygon[at]))
    return np.array(found)
