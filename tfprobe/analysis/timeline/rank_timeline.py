"""The same traced step of several ranks on one axis: what each did, and where they synchronized.

If there are too many to draw, the ranks are chosen that others waited for, that are slow or took
longest in this step, and the first ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tfprobe.analysis.distributed.aligned import Aligned
from tfprobe.analysis.timeline.slice_categories import loop_of
from tfprobe.errors import Missing
from tfprobe.profile.profile import Capture, Process, Profile
from tfprobe.profile.tables import Int64s

MOST_RANKS = 24
# At most this many are chosen for each reason; the rest are the first ranks.
_MOST_LAST = 8
_MOST_SLOW = 8
_MOST_LONGEST = 8
# The step of a process that was killed and started again was long before, with the same number.
_FAR_NS = 60_000_000_000


@dataclass(frozen=True, slots=True)
class RankStep:
    """The step of one rank.

    `events` are rows of the aligned events. The rank came last to `last` of the `matched`
    collectives; `waited_ns` is its time in them before all ranks had begun them. Without
    `is_on_clock` its clock is unknown, and it is drawn as if it had begun with the requested step.
    """

    capture: Capture
    why: str
    events: Int64s
    matched: int
    last: int
    waited_ns: int
    is_on_clock: bool


@dataclass(frozen=True, slots=True)
class RankTimeline:
    """The ranks by number; times are relative to the first start of any, `zero_ns`."""

    together: Aligned
    zero_ns: int
    ranks: tuple[RankStep, ...]
    left_out: int

    def move_ns(self, rank: RankStep) -> int:
        """Return what to add to times of a rank to make them relative to the first start."""
        if rank.is_on_clock:
            return -self.zero_ns
        return self._requested.capture.start_ns - rank.capture.start_ns - self.zero_ns

    @property
    def _requested(self) -> RankStep:
        return next(rank for rank in self.ranks if rank.why == REQUESTED)


REQUESTED, LAST, FIRST = "asked for", "others waited for it", "of the first ranks"
SLOW, LONGEST = "slow", "longest here"


def same_step(profile: Profile, capture: Capture) -> tuple[Capture, ...]:
    """Return the captures of this step in all processes that run the loop."""
    own = loop_of(profile, capture)
    if own is None:
        return (capture,)
    group = profile.processes[capture.process].group
    alike = {
        (loop.process, loop.index)
        for loop in profile.loops
        if (loop.kind, loop.name) == (own.kind, own.name)
        and profile.processes[loop.process].group == group
    }
    found = {
        each.process: each
        for each in profile.captures
        if each.step == capture.step and (each.process, each.loop) in alike
    }
    found[capture.process] = capture
    return tuple(found[process] for process in sorted(found))


def timeline_of_step(
    together: Aligned,
    capture: Capture,
    *,
    slow: Sequence[int] = (),
    most: int = MOST_RANKS,
) -> RankTimeline:
    """Return the step of this capture of the aligned profile, and of the ranks that had it too.

    `slow` are the processes that are slow in the whole run, the slowest first (docs/ranks.md).
    """
    of_step = _events_of_step(together, capture)
    every = tuple(_rank_step(together, traced, of_step) for traced in _living(together, capture))
    chosen = _chosen(every, capture, together.profile.processes, slow, most)
    requested = chosen[capture.process]
    zero_ns = min(
        [rank_step.capture.start_ns for rank_step in chosen.values() if rank_step.is_on_clock],
        default=requested.capture.start_ns,
    )
    by_rank = sorted(
        chosen.values(), key=lambda rank_step: _order(together.profile.processes, rank_step)
    )
    return RankTimeline(together, zero_ns, tuple(by_rank), len(every) - len(chosen))


def _living(together: Aligned, capture: Capture) -> list[Capture]:
    """Return the captures of the step, without those of processes that ended long before."""
    captures = same_step(together.profile, capture)
    is_known = _is_known(together, capture.process)
    return [
        other
        for other in captures
        if not (is_known and _is_known(together, other.process))
        or abs(other.start_ns - capture.start_ns) <= _FAR_NS
    ]


def _is_known(together: Aligned, process: int) -> bool:
    return not isinstance(together.clock(process).offset_ns, Missing)


def _events_of_step(together: Aligned, capture: Capture) -> Int64s:
    """Return the events of the step, of all processes."""
    found, loop = together.events, loop_of(together.profile, capture)
    text = "" if loop is None else f"{loop.kind} {loop.name}"
    is_of_loop = np.array([value == text for value in found.strings.values], dtype=np.bool_)
    at = np.flatnonzero(found.step == capture.step)
    return at[is_of_loop[found.loop[at]]] if len(at) else at


def _rank_step(together: Aligned, capture: Capture, of_step: Int64s) -> RankStep:
    peers = together.peers
    mine = of_step[together.events.process[of_step] == capture.process]
    matched = mine[peers.waited_ns[mine] >= 0]
    return RankStep(
        capture=capture,
        why="",
        events=mine,
        matched=len(matched),
        last=int((peers.last[matched] == matched).sum()),
        waited_ns=int(peers.waited_ns[matched].sum()),
        is_on_clock=_is_known(together, capture.process),
    )


def _chosen(
    every: Sequence[RankStep],
    capture: Capture,
    processes: Sequence[Process],
    slow: Sequence[int],
    most: int,
) -> Mapping[int, RankStep]:
    """Return the ranks that are drawn, by process, each with the first reason for it."""
    by_last = sorted(every, key=lambda rank_step: -rank_step.last)[:_MOST_LAST]
    by_time = sorted(every, key=lambda rank_step: -rank_step.capture.duration_ns)[:_MOST_LONGEST]
    by_process = {rank_step.capture.process: rank_step for rank_step in every}
    wanted = [
        *(
            (rank_step, REQUESTED)
            for rank_step in every
            if rank_step.capture.process == capture.process
        ),
        *((rank_step, LAST) for rank_step in by_last if rank_step.last),
        *((by_process[process], SLOW) for process in slow[:_MOST_SLOW] if process in by_process),
        *((rank_step, LONGEST) for rank_step in by_time if len(every) > most),
        *(
            (rank_step, FIRST)
            for rank_step in sorted(every, key=lambda rank_step: _order(processes, rank_step))
        ),
    ]
    found: dict[int, RankStep] = {}
    for each, why in wanted:
        if len(found) < most:
            found.setdefault(each.capture.process, replace(each, why=why))
    return found


def _order(processes: Sequence[Process], each: RankStep) -> tuple[bool, int, int]:
    process = processes[each.capture.process]
    return process.rank is None, process.rank or 0, process.index
