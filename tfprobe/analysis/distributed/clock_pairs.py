"""Compare the clocks of two machines by their synchronization events: strict bounds, and the most
likely difference within them.

No process finishes an all-reduce before all have begun it, and nothing is received before it is
sent: this bounds the difference of two clocks from both sides. Within the bounds, members of a
collective are assumed to end it at the same moment.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tfprobe.analysis.distributed.synchronization_matrix import MachineEvents
from tfprobe.errors import Missing
from tfprobe.profile.tables import Flags, Int64s

# A disciplined clock is not slewed by more (adjtimex(2), ntpd), and crystals are better.
MOST_DRIFT_PPM = 500.0
# Different executions that are taken for the same one contradict all others. At most this share is
# left out before the whole counts as a contradiction,
_MOST_WRONG_RATIO = 0.25
# and fewer if too many are consecutive to be chance: then the clock was set.
_NO_CHANCE = 1e-3
_LEAST_IN_A_ROW = 4
# Sends in one direction give bounds alone. Dropping the tightest makes bounds wider.
_TIGHTEST_RATIO = 0.02
# Ends farther from a line than this many times the usual distance are unusual, if they are few.
_UNUSUAL = 8.0
_LEAST_UNUSUAL_NS = 20_000.0
_MOST_UNUSUAL_RATIO = 0.2
# Share of the limits of a step that is skipped on the way to the middle between both sides.
_MIDDLE_RATIO = 0.1
# If there are fewer limits, all are needed.
_LEAST_TRIMMED = 20
# TensorFlow until 2.13 places a trace in time within 0.1 ms: two traces differ by up to twice that,
# and would otherwise contradict others of the same machines.
_SLACKS_NS = (0.0, 50_000.0, 200_000.0)
# Rounding, twice.
_WRONG_NS = 4.0
# Comparing two machines takes some ms; all pairs of this many take a second.
_MOST_WITH_ALL = 16
_HUBS = 3
# More points make a median of slopes slow and no better.
_MOST_POINTS = 200


@dataclass(frozen=True, slots=True)
class ClockPair:
    """How far the clock of machine `other` is ahead of that of `one`, at the first and last moment.

    It is certainly between `low_ns` and `high_ns`, and most likely `likely_ns`. `left_out` of the
    `events` contradict the others.
    """

    one: int
    other: int
    low_ns: Line
    high_ns: Line
    likely_ns: Line
    drift_low_ns: float
    drift_high_ns: float
    events: int
    left_out: int

    @property
    def error_ns(self) -> float:
        """Return the largest possible distance of the likely difference from the true one."""
        sides = zip(self.low_ns, self.likely_ns, self.high_ns, strict=True)
        return max(max(high - likely, likely - low) for low, likely, high in sides)


def compare_clocks(
    met: MachineEvents, moment_ns: Floats, one: int, other: int
) -> ClockPair | Missing:
    """Return the difference of two clocks, or why it is unknown.

    `moment_ns` is the time of each event, on one clock.
    """
    first_ns, last_ns = span_ns(moment_ns)
    bounds, ends, steps = _bounds(met, (moment_ns - first_ns) / (last_ns - first_ns), one, other)
    if not (np.isfinite(bounds.low_ns).any() and np.isfinite(bounds.high_ns).any()):
        return Missing("no recorded synchronization bounds its clock from both sides")
    most_change_ns = MOST_DRIFT_PPM * 1e-6 * (last_ns - first_ns)
    guess = _guess(bounds.share, ends, steps, most_change_ns)
    if guess is None:
        guess = _guess(*_middles(bounds, steps), most_change_ns)
    for slack_ns in _SLACKS_NS:
        wide = ClockBounds(bounds.share, bounds.low_ns - slack_ns, bounds.high_ns + slack_ns)
        polygon, left_out = _inside(wide, ends, guess, most_change_ns)
        if len(polygon):
            break
    if not len(polygon):
        return Missing(
            "the recorded synchronizations contradict each other: its clock was set "
            f"while the job ran, or drifts unevenly or by more than {MOST_DRIFT_PPM:.0f} ppm"
        )
    low, high = polygon.min(axis=0), polygon.max(axis=0)
    middle = (float(low[0] + high[0]) / 2, float(low[1] + high[1]) / 2)
    change = polygon[:, 1] - polygon[:, 0]
    return ClockPair(
        one=one,
        other=other,
        low_ns=(float(low[0]), float(low[1])),
        high_ns=(float(high[0]), float(high[1])),
        likely_ns=nearest(polygon, guess or middle),
        drift_low_ns=float(change.min()),
        drift_high_ns=float(change.max()),
        events=len(bounds.share),
        left_out=left_out,
    )


def span_ns(moment_ns: Floats) -> Line:
    """Return the first and the last moment, which always differ."""
    first = float(moment_ns.min())
    return first, max(float(moment_ns.max()), first + 1)


def _bounds(
    met: MachineEvents, share: Floats, one: int, other: int
) -> tuple[ClockBounds, Floats, Int64s]:
    """Return the bounds by events of both machines, how far their ends differ, and their steps."""
    high_ns = met.done_ns[:, other] - met.begun_ns[:, one]
    low_ns = met.begun_ns[:, other] - met.done_ns[:, one]
    known = ~(np.isnan(high_ns) & np.isnan(low_ns))
    bounds = ClockBounds(
        share[known],
        np.nan_to_num(low_ns[known], nan=-np.inf),
        np.nan_to_num(high_ns[known], nan=np.inf),
    )
    ends_ns = (met.end_ns[:, other] - met.end_ns[:, one])[known]
    return bounds, ends_ns, met.step[known]


def _guess(share: Floats, ends_ns: Floats, step: Int64s, most_change_ns: float) -> Line | None:
    """Return the Theil-Sen line through the median differences of ends of each step.

    None if no collective was recorded on both machines.
    """
    known = ~np.isnan(ends_ns)
    if not known.any():
        return None
    points = _medians(share[known], ends_ns[known], step[known])
    x, y = points.T
    slope = 0.0
    if len(points) > 1:
        some = np.linspace(0, len(points) - 1, min(len(points), _MOST_POINTS)).astype(np.int64)
        one, other = np.triu_indices(len(some), k=1)
        apart = x[some[other]] - x[some[one]]
        rises = (y[some[other]] - y[some[one]])[apart > 0] / apart[apart > 0]
        slope = _clearly(rises) if len(rises) else 0.0
    slope = min(max(slope, -most_change_ns), most_change_ns)
    start = float(np.median(y - slope * x))
    return start, start + slope


def _clearly(rises: Floats) -> float:
    """Return the median of slopes; 0 if many have the opposite sign, which is noise."""
    low, middle, high = np.quantile(rises, (0.25, 0.5, 0.75)).tolist()
    return 0.0 if low <= 0 <= high else float(middle)


def _medians(share: Floats, ends_ns: Floats, step: Int64s) -> Floats:
    """Return the mean moment and the median difference of each step, in the order of time."""
    order = np.lexsort((ends_ns, step))
    _, first, counts = np.unique(step[order], return_index=True, return_counts=True)
    ordered = ends_ns[order]
    middle_ns = (ordered[first + (counts - 1) // 2] + ordered[first + counts // 2]) / 2
    moment = np.add.reduceat(share[order], first) / counts
    points = np.stack((moment, middle_ns), axis=1)
    found: Floats = points[np.argsort(moment, kind="stable")]
    return found


def _inside(
    bounds: ClockBounds, ends_ns: Floats, guess: Line | None, most_change_ns: float
) -> tuple[Floats, int]:
    """Return the polygon of lines inside the limits, and how many limits contradict it.

    It is empty if too many do.
    """
    if guess is None:
        return corners(bounds, most_change_ns), 0
    usual = _usual(bounds.share, ends_ns, guess) & ~_tightest_one_way(bounds, ends_ns, guess)
    polygon = _fewest_left_out(bounds.only(usual), guess, most_change_ns)
    if not len(polygon):
        return polygon, 0
    at_ns = polygon @ np.stack((1 - bounds.share, bounds.share))
    wrong = at_ns.min(axis=0) > bounds.high_ns + _WRONG_NS
    wrong |= at_ns.max(axis=0) < bounds.low_ns - _WRONG_NS
    is_chance = wrong.mean() <= _MOST_WRONG_RATIO and not _was_set(wrong, bounds.share)
    return (polygon if is_chance else polygon[:0]), int(wrong.sum())


def _was_set(wrong: Flags, share: Floats) -> bool:
    """Say whether more wrong limits are consecutive than by chance."""
    ratio = float(wrong.mean())
    if not ratio:
        return False
    by_chance = math.log(_NO_CHANCE / len(wrong)) / math.log(min(ratio, 0.5))
    changes = np.flatnonzero(np.diff(np.concatenate(([0], wrong[np.argsort(share)], [0]))))
    longest = int((changes[1::2] - changes[::2]).max())
    return longest > max(by_chance, _LEAST_IN_A_ROW)


def _middles(bounds: ClockBounds, step: Int64s) -> tuple[Floats, Floats, Int64s]:
    """Return the middle of what most limits of each step leave, if there are no ends. If tensors go
    both ways, it is correct as far as both take the same time.
    """
    found = []
    for number in np.unique(step).tolist():
        mine = step == number
        low_ns = bounds.low_ns[mine & np.isfinite(bounds.low_ns)]
        high_ns = bounds.high_ns[mine & np.isfinite(bounds.high_ns)]
        if len(low_ns) and len(high_ns):
            middle_ns = np.quantile(low_ns, 1 - _MIDDLE_RATIO) + np.quantile(high_ns, _MIDDLE_RATIO)
            found.append((float(np.median(bounds.share[mine])), float(middle_ns) / 2, number))
    share, middle, steps = np.array(found).reshape(-1, 3).T
    return share, middle, steps.astype(np.int64)


def _tightest_one_way(bounds: ClockBounds, ends_ns: Floats, guess: Line) -> Flags:
    """Say which limits of sends are too tight to be trusted."""
    at_ns = guess[0] + bounds.share * (guess[1] - guess[0])
    room_ns = np.minimum(at_ns - bounds.low_ns, bounds.high_ns - at_ns)
    one_way = np.isnan(ends_ns)
    found = np.zeros(len(room_ns), dtype=np.bool_)
    for side in (np.isinf(bounds.low_ns), np.isinf(bounds.high_ns)):
        mine = np.flatnonzero(one_way & side)
        count = math.ceil(_TIGHTEST_RATIO * len(mine)) if len(mine) >= _LEAST_TRIMMED else 0
        found[mine[np.argsort(room_ns[mine], kind="stable")[:count]]] = True
    return found


def _usual(share: Floats, ends_ns: Floats, guess: Line) -> Flags:
    """Say which events ended at about the same time on both machines, by the guess.

    The others may be different executions. Bounds hold without them.
    """
    off_ns = np.abs(ends_ns - guess[0] - share * (guess[1] - guess[0]))
    known_ns = off_ns[~np.isnan(off_ns)]
    limit_ns = _UNUSUAL * float(np.median(known_ns) if len(known_ns) else 0) + _LEAST_UNUSUAL_NS
    found: Flags = ~(off_ns > limit_ns)
    # If there are more, the guess is wrong.
    return found if found.mean() >= 1 - _MOST_UNUSUAL_RATIO else np.ones_like(found)


def _fewest_left_out(bounds: ClockBounds, guess: Line, most_change_ns: float) -> Floats:
    """Return the polygon of lines inside the limits. If it is empty, leave out the limits farthest
    from the guess, as few as possible.
    """
    points = corners(bounds, most_change_ns)
    if len(points):
        return points
    excess_ns = bounds.excess_ns(guess)
    order = np.argsort(-excess_ns, kind="stable")
    low, high = 1, min(int(_MOST_WRONG_RATIO * len(order)), int(np.count_nonzero(excess_ns)))
    while low <= high:
        count = (low + high) // 2
        tried = corners(bounds.only(np.sort(order[count:])), most_change_ns)
        if len(tried):
            points, high = tried, count - 1
        else:
            low = count + 1
    return points


def pairs_to_compare(met: MachineEvents) -> Sequence[tuple[int, int]]:
    """Return the pairs of machines to compare: all, or with many machines, each with those that
    have the most events."""
    seen = met.seen
    machines = seen.shape[1]
    if machines <= _MOST_WITH_ALL:
        hubs = list(range(machines))
    else:
        hubs = np.argsort(-seen.sum(axis=0), kind="stable")[:_HUBS].tolist()
    meets = seen.astype(np.float32).T @ seen.astype(np.float32)
    found = {
        (min(hub, other), max(hub, other))
        for hub in hubs
        for other in range(machines)
        if hub != other and meets[hub, other]
    }
    return sorted(found)


Floats = npt.NDArray[np.float64]
# The value at the first moment and at the last, in ns.
Line = tuple[float, float]

# Rounding of numbers that are hours in ns; no clock has a finer resolution.
_ROUNDING_NS = 1.0


class ClockBounds(NamedTuple):
    """Limits of a difference of clocks. `share` is the position between the first and the last
    moment, 0..1; the difference there is at least `low_ns` and at most `high_ns`, infinite if
    unknown.
    """

    share: Floats
    low_ns: Floats
    high_ns: Floats

    def only(self, chosen: npt.NDArray[np.bool_]) -> ClockBounds:
        """Return the limits where `chosen` is true."""
        return ClockBounds(self.share[chosen], self.low_ns[chosen], self.high_ns[chosen])

    def excess_ns(self, line: Line) -> Floats:
        """Return how far a line is outside each limit, 0 if it is inside."""
        at_ns = line[0] + self.share * (line[1] - line[0])
        return np.maximum(np.maximum(self.low_ns - at_ns, at_ns - self.high_ns), 0)


def corners(bounds: ClockBounds, most_change_ns: float) -> Floats:
    """Return the corners of the polygon of all lines inside all limits; none if there is no such
    line.

    A line changes by at most `most_change_ns` from the first moment to the last. Rows are corners,
    columns values at the first and the last moment.
    """
    low_ns = float(bounds.low_ns.max()) - most_change_ns
    high_ns = float(bounds.high_ns.min()) + most_change_ns
    far = (high_ns - low_ns) / 2 + _ROUNDING_NS
    if not 0 <= far < np.inf:
        return np.empty((0, 2))
    # Relative to the middle, numbers are small enough not to be rounded.
    middle_ns = (high_ns + low_ns) / 2
    moved = ClockBounds(bounds.share, bounds.low_ns - middle_ns, bounds.high_ns - middle_ns)
    polygon = np.array([[-far, -far], [far, -far], [far, far], [-far, far]])
    for weight, limit in _half_planes(moved, most_change_ns):
        polygon = _cut(polygon, weight, limit)
        if not len(polygon):
            break
    return polygon + middle_ns


def nearest(polygon: Floats, line: Line) -> Line:
    """Return the line itself if it is inside the polygon, else the one on the edge towards it."""
    centre = polygon.mean(axis=0)
    wanted = np.array(line)
    edges = np.roll(polygon, -1, axis=0) - polygon
    # Corners are in counter-clockwise order: the right side of an edge is outside.
    normals = np.stack((edges[:, 1], -edges[:, 0]), axis=1)
    at_centre = ((centre - polygon) * normals).sum(axis=1)
    at_wanted = ((wanted - polygon) * normals).sum(axis=1)
    out = at_wanted > 0
    if not out.any():
        return line
    inside = at_centre[out] / (at_centre[out] - at_wanted[out])
    first, last = centre + float(np.clip(inside.min(), 0, 1)) * (wanted - centre)
    return float(first), float(last)


def _half_planes(
    bounds: ClockBounds, most_change_ns: float
) -> list[tuple[tuple[float, float], float]]:
    """Return each limit as weights of both values, and the maximum of their sum."""
    found = [((-1.0, 1.0), most_change_ns), ((1.0, -1.0), most_change_ns)]
    for sign, limit_ns in ((1.0, bounds.high_ns), (-1.0, -bounds.low_ns)):
        kept = _tightest(bounds.share, limit_ns, most_change_ns)
        for share, limit in zip(bounds.share[kept].tolist(), limit_ns[kept].tolist(), strict=True):
            found.append(((sign * (1 - share), sign * share), limit + _ROUNDING_NS))
    return found


def _tightest(share: Floats, limit_ns: Floats, most_change_ns: float) -> npt.NDArray[np.intp]:
    """Return the upper limits that others do not imply, for lines that change by at most this.

    A limit at another moment also holds here, widened by what a line may change in between.
    """
    order = np.argsort(share, kind="stable")
    slope_ns = most_change_ns * share[order]
    limit = limit_ns[order]
    from_left = np.minimum.accumulate(limit - slope_ns) + slope_ns
    from_right = np.minimum.accumulate((limit + slope_ns)[::-1])[::-1] - slope_ns
    tight = np.isfinite(limit) & (limit <= np.minimum(from_left, from_right) + _ROUNDING_NS)
    found = order[tight]
    # Equal limits at one moment are redundant.
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
