"""Find the main loops of a process, their remembered steps, and the gaps between these by kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from tfprobe.analysis.breakdown.gap_calls import usual_gaps
from tfprobe.analysis.core.intervals import Intervals, union
from tfprobe.analysis.core.main_loop import fills_queue, main_loop_first
from tfprobe.analysis.steps.phases import EVALUATION_KINDS, is_training
from tfprobe.analysis.steps.slow_step_causes import ends_epoch
from tfprobe.analysis.steps.step_window import recent_window, warm_up_steps
from tfprobe.errors import Missing
from tfprobe.profile.activities import Activity
from tfprobe.profile.profile import Loop
from tfprobe.profile.tables import Flags, Int64s

_EVER_NS = np.iinfo(np.int64).max


class GapKind(IntEnum):
    """The kind of a gap. USUAL gaps are not long, were not watched, and follow no traced step."""

    USUAL = 0
    TRACED = 1
    WARM_UP = 2
    LONG = 3
    EPOCH_END = 4
    BETWEEN_CALLS = 5
    FORGOTTEN = 6


@dataclass(frozen=True, slots=True)
class LoopSteps:
    """The remembered steps of the main loops by start, in unix ns; `loop` is an index among them.

    `sampled` steps were traced, `warm` ones belong to the warm-up. After `followed` steps, tfprobe
    itself lengthened the gap: it had traced the step, or watched the gap.
    """

    loop: Int64s
    number: Int64s
    start_ns: Int64s
    end_ns: Int64s
    sampled: Flags
    warm: Flags
    followed: Flags


@dataclass(frozen=True, slots=True)
class Gaps:
    """The times between two steps in which no main loop was in a step, by start, in unix ns.

    `loop` and `step` are those of the step before.
    """

    loop: Int64s
    step: Int64s
    start_ns: Int64s
    end_ns: Int64s
    kind: Int64s

    def __len__(self) -> int:
        return len(self.start_ns)

    def of(self, *kinds: GapKind) -> Intervals:
        """Return the gaps of these kinds."""
        chosen = np.isin(self.kind, kinds)
        return Intervals(self.start_ns[chosen], self.end_ns[chosen])


def loop_steps(main: Sequence[Loop], loops: Sequence[Loop], shift_ns: int) -> LoopSteps:
    """Return the remembered steps of main loops, which are among the loops of the process."""
    columns: list[tuple[npt.NDArray[np.generic], ...]] = []
    for index, loop in enumerate(main):
        steps = recent_window(loop, loops)
        warm_up = warm_up_steps(steps)
        warm = np.arange(len(steps)) < (0 if isinstance(warm_up, Missing) else warm_up)
        place = np.full(len(steps), index, dtype=np.int64)
        times = (steps.start_ns + shift_ns, steps.end_ns + shift_ns)
        followed = np.append(loop.recent.gap_is_ours[1:], steps.sampled[-1:])
        columns.append((place, steps.numbers, *times, steps.sampled, warm, followed))
    joined = [np.concatenate(parts) for parts in zip(*columns, strict=True)]
    order = np.argsort(joined[2], kind="stable")
    place, number, start_ns, end_ns, sampled, warm, after = (column[order] for column in joined)
    return LoopSteps(
        place.astype(np.int64),
        number.astype(np.int64),
        start_ns.astype(np.int64),
        end_ns.astype(np.int64),
        sampled.astype(np.bool_),
        warm.astype(np.bool_),
        after.astype(np.bool_),
    )


def gaps_between(
    steps: LoopSteps, main: Sequence[Loop], activities: Sequence[Activity], remembered_from_ns: int
) -> Gaps:
    """Return the gaps between steps; those before `remembered_from_ns` hold forgotten steps."""
    busy = union(steps.start_ns, steps.end_ns)
    start_ns, end_ns = busy.end_ns[:-1], busy.start_ns[1:]
    by_end = np.argsort(steps.end_ns, kind="stable")
    before = by_end[np.searchsorted(steps.end_ns[by_end], start_ns, side="right") - 1]
    place = steps.loop[before]
    usual = [usual_gaps(loop) for loop in main]
    most_ns = np.array([_EVER_NS if gap is None else gap.longest_ns for gap in usual])
    length_ns = end_ns - start_ns
    kind = np.full(len(start_ns), GapKind.USUAL, dtype=np.int64)
    kind[steps.warm[before]] = GapKind.WARM_UP
    kind[length_ns > most_ns[place]] = GapKind.LONG
    kind[steps.followed[before]] = GapKind.TRACED
    kind[~steps.sampled[before] & (length_ns > most_ns[place])] = GapKind.LONG
    # Where epochs have few steps, an epoch's end is as usual as a step's: it has its own kind.
    at_epoch_end = _holds(start_ns, end_ns, [a.start_ns for a in activities if ends_epoch(a)])
    kind[at_epoch_end] = GapKind.EPOCH_END
    ends_call = _holds(start_ns, end_ns, [a.end_ns for a in activities if a.kind == "train"])
    kind[ends_call] = GapKind.BETWEEN_CALLS
    kind[start_ns < remembered_from_ns] = GapKind.FORGOTTEN
    return Gaps(place, steps.number[before], start_ns, end_ns, kind)


def _holds(start_ns: Int64s, end_ns: Int64s, moments_ns: Sequence[int]) -> Flags:
    moments = np.sort(np.array(moments_ns, dtype=np.int64))
    holds: Flags = np.searchsorted(moments, end_ns) > np.searchsorted(moments, start_ns)
    return holds


# A loop of another thread makes progress if it takes at least this share of the main loop's time.
_LEAST_PROGRESS_RATIO = 0.5
# What ran no more often than this is a single call where the main loop ran more often.
_SINGLE = 2


@dataclass(frozen=True, slots=True)
class LoopRoles:
    """The loops of one process that took steps.

    `main` make progress, the main loop first; `evaluating` evaluate or predict during training;
    `single` ran once or twice, as an initialisation does. Other loops of helper threads have no
    role.
    """

    main: tuple[Loop, ...]
    evaluating: tuple[Loop, ...]
    single: tuple[Loop, ...]


def loop_roles(loops: Sequence[Loop]) -> LoopRoles:
    """Return the roles of the loops of one process; without steps there is no main loop."""
    stepped = [loop for loop in loops if len(loop.recent.start_ns)]
    trains = is_training(stepped)
    ordered = main_loop_first(
        loop for loop in stepped if not trains or loop.kind not in EVALUATION_KINDS
    )
    if not ordered:
        return LoopRoles((), (), ())
    main: list[Loop] = []
    single: list[Loop] = []
    for loop in ordered:
        if loop is ordered[0]:
            main.append(loop)
        elif loop.executed <= _SINGLE < ordered[0].executed:
            single.append(loop)
        elif _makes_progress(loop, ordered[0]):
            main.append(loop)
    evaluating = tuple(loop for loop in stepped if trains and loop.kind in EVALUATION_KINDS)
    return LoopRoles(tuple(main), evaluating, tuple(single))


def _makes_progress(loop: Loop, main: Loop) -> bool:
    steps = loop.optimizer_steps
    if fills_queue(loop):
        return False
    if loop.thread == main.thread or (isinstance(steps, int) and steps > 0):
        return True
    return loop.times.sum_ns >= _LEAST_PROGRESS_RATIO * main.times.sum_ns
