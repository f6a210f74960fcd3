"""Estimate how far the clocks of processes are ahead of each other, and the largest possible error.

Processes of one machine have one clock. Clocks of other machines are compared by synchronization
events (docs/ranks.md). Without events that bound it, an offset is unknown.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tfprobe.analysis.distributed.clock_pairs import (
    ClockPair,
    Floats,
    Line,
    compare_clocks,
    pairs_to_compare,
    span_ns,
)
from tfprobe.analysis.distributed.rank_slots import rank_slots
from tfprobe.analysis.distributed.synchronization_events import SynchronizationEvents
from tfprobe.analysis.distributed.synchronization_matrix import (
    MachineEvents,
    Machines,
    machine_events,
    machines_of,
)
from tfprobe.errors import Missing
from tfprobe.profile.profile import Process
from tfprobe.profile.tables import Int64s

NO_EVENT = Missing(
    "no traced step of it synchronizes with another machine: record the same steps on all "
    "ranks, with --every or --steps"
)
ONE_STEP = Missing("one traced step does not show drift")
# With more machines, all paths take longer than a second, and only the best path of each counts.
_MOST_IN_PATHS = 700
_PPM = 1e-6
# A pair with fewer events than this share of what both have with others is a mistake.
_RARELY = 0.1
# Extrapolate by as much time again before the first event and after the last.
_FARTHEST = 3
# Twice the error that clock_pairs accepts.
_TOLERABLE_NS = 400_000
# Offset and drift are rounded to whole ns.
_ROUNDING_NS = 2


@dataclass(frozen=True, slots=True)
class Clock:
    """How far the clock of a process is ahead of the reference's.

    `offset_ns` is the offset when the reference's clock shows `at_ns`; subtract it from unix times
    of the process. `on_reference` also takes the drift into account: the clock is likely faster by
    `drift_ppm`, give or take at most `drift_error_ppm`. Its results are wrong by at most `error_ns`
    from the first to the last recorded event, which are `reach_ns` before and after `at_ns`; the
    drift is assumed to continue for as long again on each side.
    """

    process: int
    offset_ns: int | Missing
    error_ns: int | Missing
    basis: str
    drift_ppm: float | Missing = ONE_STEP
    drift_error_ppm: float | Missing = ONE_STEP
    at_ns: int = 0
    reach_ns: int = 0

    def on_reference(self, unix_ns: Int64s) -> Int64s | Missing:
        """Return unix times of the process on the clock of the reference."""
        if isinstance(self.offset_ns, Missing):
            return self.offset_ns
        aligned_ns: Int64s = unix_ns - self.offset_ns
        if not isinstance(self.drift_ppm, Missing):
            farthest_ns = _FARTHEST * self.reach_ns
            since_ns = np.clip(aligned_ns - self.at_ns, -farthest_ns, farthest_ns)
            aligned_ns = aligned_ns - np.rint(since_ns * (self.drift_ppm * _PPM)).astype(np.int64)
        return aligned_ns


@dataclass(frozen=True, slots=True)
class Clocks:
    """The clock of each process, in their order, relative to that of the process `reference`.

    `machines` is the number of different clocks.
    """

    reference: int
    clocks: tuple[Clock, ...]
    machines: int = 1

    @property
    def error_ns(self) -> int | Missing:
        """Return the largest error of the known clocks, Missing if there is none."""
        known = [clock.error_ns for clock in self.clocks if isinstance(clock.error_ns, int)]
        return max(known) if known else Missing("no clock is known")

    @property
    def unknown(self) -> tuple[Clock, ...]:
        """Return the clocks whose offset is unknown."""
        return tuple(clock for clock in self.clocks if isinstance(clock.offset_ns, Missing))


@dataclass(frozen=True, slots=True)
class _Ahead:
    """How far the clock of a machine is ahead, at the first and the last recorded event."""

    likely_ns: Line
    error_ns: float
    drift_ns: tuple[float, float]
    basis: str


def clocks(processes: Sequence[Process], events: SynchronizationEvents) -> Clocks:
    """Return the clock of each process; the reference is the first with an event, if any."""
    if not processes:
        return Clocks(0, (), 0)
    generation = [slot.matched_by for slot in rank_slots(processes)]
    found = machines_of(processes, events, generation)
    met = machine_events(events, generation, found.machine, found.shift_ns)
    meets = met.seen.any(axis=0) if len(met.seen) else np.zeros(found.count, dtype=np.bool_)
    root = int(np.argmax(meets)) if meets.any() else 0
    ahead, span = _ahead(met, root, found.count) if meets.any() else ({}, (0.0, 0.0))
    reference = found.machine.index(root)
    each_clock = tuple(
        _clock(found, at, reference, ahead.get(found.machine[at], NO_EVENT), met.base_ns, span)
        for at in range(len(processes))
    )
    return Clocks(reference, each_clock, found.count)


def _clock(
    found: Machines,
    at: int,
    reference: int,
    ahead: _Ahead | Missing,
    base_ns: int,
    span: Line,
) -> Clock:
    """Return the clock of a process: that of its machine, and its own offset from it."""
    shift_ns = found.shift_ns[at] - found.shift_ns[reference]
    own_error_ns = found.error_ns[at] + found.error_ns[reference]
    if at == reference:
        return Clock(at, 0, 0, "the reference", 0.0, 0.0)
    if found.machine[at] == found.machine[reference]:
        return Clock(at, shift_ns, own_error_ns, "the reference's machine has one clock", 0.0, 0.0)
    if isinstance(ahead, Missing):
        return Clock(at, ahead, ahead, ahead.reason, ahead, ahead)
    first, last = ahead.likely_ns
    ppm = 1 / (span[1] - span[0]) / _PPM
    drift_ppm = (last - first) * ppm
    return Clock(
        process=at,
        offset_ns=round((first + last) / 2) + shift_ns,
        error_ns=math.ceil(ahead.error_ns) + own_error_ns + _ROUNDING_NS,
        basis=ahead.basis,
        drift_ppm=drift_ppm,
        drift_error_ppm=max(abs(each * ppm - drift_ppm) for each in ahead.drift_ns),
        at_ns=base_ns + round(sum(span) / 2),
        reach_ns=round((span[1] - span[0]) / 2),
    )


def _ahead(
    met: MachineEvents, root: int, machines: int
) -> tuple[dict[int, _Ahead | Missing], Line]:
    """Return how far machines are ahead of machine `root`, and from when until when."""
    pairs = pairs_to_compare(met)
    # At first, events are placed in time by clocks that may be seconds apart.
    moment_ns = met.moments_ns(np.zeros(machines))
    rough = _settle(
        [compare_clocks(met, moment_ns, *pair) for pair in pairs], pairs, root, machines
    )
    ahead_ns = np.zeros(machines)
    for machine, each in rough.items():
        if not isinstance(each, Missing):
            ahead_ns[machine] = sum(each.likely_ns) / 2
    moment_ns = met.moments_ns(ahead_ns)
    compared = [compare_clocks(met, moment_ns, *pair) for pair in pairs]
    return _settle(compared, pairs, root, machines), span_ns(moment_ns)


def _settle(
    compared: Sequence[ClockPair | Missing],
    pairs: Sequence[tuple[int, int]],
    root: int,
    machines: int,
) -> dict[int, _Ahead | Missing]:
    """Return the offset of each machine: the likely one along the path of pairs with the smallest
    error, within the bounds of all paths.
    """
    known = _likely_meant([pair for pair in compared if not isinstance(pair, Missing)], machines)
    offsets: dict[int, _Ahead | Missing] = {}
    for pair, each in zip(pairs, compared, strict=True):
        if isinstance(each, Missing):
            offsets.update(dict.fromkeys(pair, each))
    paths = _paths(known, root)
    limits = [_limits(known, root, machines, at) for at in (0, 1)]
    for machine, path in paths.items():
        offsets[machine] = _along(path, machine, root, limits)
    return offsets


def _likely_meant(pairs: Sequence[ClockPair], machines: int) -> list[ClockPair]:
    """Return the pairs without those that have far fewer events than each has with others.

    A few events among hundreds are of different executions taken for the same one.
    """
    most = np.zeros(machines, dtype=np.int64)
    for pair in pairs:
        for at in (pair.one, pair.other):
            most[at] = max(most[at], pair.events)
    return [
        pair
        for pair in pairs
        if pair.events >= _RARELY * min(int(most[pair.one]), int(most[pair.other]))
    ]


def _paths(pairs: Sequence[ClockPair], root: int) -> dict[int, tuple[tuple[ClockPair, int], ...]]:
    """Return for each machine the pairs on the path with the smallest error, and their signs."""
    of_machine: dict[int, list[tuple[ClockPair, int, int]]] = {}
    for pair in pairs:
        of_machine.setdefault(pair.one, []).append((pair, 1, pair.other))
        of_machine.setdefault(pair.other, []).append((pair, -1, pair.one))
    found: dict[int, tuple[tuple[ClockPair, int], ...]] = {}
    queue: list[tuple[float, int, int, tuple[tuple[ClockPair, int], ...]]] = [(0.0, 0, root, ())]
    count = 0
    while queue:
        error_ns, _, machine, path = heapq.heappop(queue)
        if machine in found:
            continue
        found[machine] = path
        for pair, sign, other in of_machine.get(machine, []):
            if other not in found:
                count += 1
                way = (error_ns + pair.error_ns, count, other, (*path, (pair, sign)))
                heapq.heappush(queue, way)
    return found


def _limits(
    pairs: Sequence[ClockPair], root: int, machines: int, at: int
) -> tuple[Floats, Floats] | Missing:
    """Return the bounds of how far each machine is ahead, over all paths from `root`.

    Missing if there are too many machines.
    """
    if machines > _MOST_IN_PATHS:
        return Missing("")
    most = np.full((machines, machines), np.inf)
    np.fill_diagonal(most, 0)
    for pair in pairs:
        most[pair.one, pair.other] = pair.high_ns[at]
        most[pair.other, pair.one] = -pair.low_ns[at]
    for through in range(machines):
        most = np.minimum(most, most[:, through, None] + most[None, through, :])
    return -most[:, root], most[root]


def _along(
    path: Sequence[tuple[ClockPair, int]],
    machine: int,
    root: int,
    limits: Sequence[tuple[Floats, Floats] | Missing],
) -> _Ahead | Missing:
    if machine == root:
        return _Ahead((0.0, 0.0), 0.0, (0.0, 0.0), "the reference")
    likely, error_ns = [0.0, 0.0], 0.0
    for at in (0, 1):
        likely[at] = sum(sign * pair.likely_ns[at] for pair, sign in path)
        limit = limits[at]
        if isinstance(limit, Missing):
            error_ns = sum(pair.error_ns for pair, _ in path)
            continue
        low, high = float(limit[0][machine]), float(limit[1][machine])
        if low > high and low - high <= _TOLERABLE_NS:
            # Traces are not placed in time more exactly.
            error_ns = max(error_ns, sum(pair.error_ns for pair, _ in path))
            continue
        if low > high:
            return Missing(
                "its recorded synchronizations with several machines contradict each other"
            )
        likely[at] = min(max(likely[at], low), high)
        error_ns = max(error_ns, high - likely[at], likely[at] - low)
    drifts = [sorted((sign * pair.drift_low_ns, sign * pair.drift_high_ns)) for pair, sign in path]
    drift_ns = (sum(drift[0] for drift in drifts), sum(drift[1] for drift in drifts))
    return _Ahead((likely[0], likely[1]), error_ns, drift_ns, _basis(path))


def _basis(path: Sequence[tuple[ClockPair, int]]) -> str:
    least = min(pair.events for pair, _ in path)
    text = f"{least} synchronizations" if least > 1 else "1 synchronization"
    left_out = sum(pair.left_out for pair, _ in path)
    text += f", {left_out} of which contradict the others" if left_out else ""
    through = len(path) - 1
    return text + (f", through {through} other machine{'s' * (through > 1)}" if through else "")
