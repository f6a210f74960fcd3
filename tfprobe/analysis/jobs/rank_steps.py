"""Compare the steps of processes that run the same loop, by step number: who is late, how often,
and when.

Steps that raised or were traced in a process are left out for that process.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from tfprobe.analysis.steps.step_window import lengthened_gaps
from tfprobe.errors import Missing
from tfprobe.profile.profile import Loop

Measure = Literal["step", "between"]
MEASURES: tuple[Measure, ...] = ("step", "between")
MOST_COLUMNS = 200
MOST_LANES = 256
MOST_POINTS = 600
ALONE = Missing("only one process ran this loop: there is nothing to compare it with")
_NO_STEP_IN_COMMON = Missing("no two processes have step times of untraced steps")

_Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Lane:
    """A process among those that run the loop; ratios are to the median process at the same step.

    `middle_ratio` is the median over the `compared` steps, `slowest_ratio` the share of them in
    which no process took longer. `cells` are medians of columns, None if unknown.
    """

    process: int
    middle_ratio: float
    slowest_ratio: float
    compared: int
    cells: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class StepSpread:
    """What the fastest, the median and the slowest process took at a step, and which was slowest.

    Columns with at most MOST_POINTS steps in their order. If there are more, each stands for
    several consecutive steps: the one that took its slowest process longest. A row is of one step.
    """

    step: tuple[int, ...]
    least_ns: tuple[float, ...]
    median_ns: tuple[float, ...]
    most_ns: tuple[float, ...]
    slowest: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Ranks:
    """The processes of a loop in their order, with the steps from `first_step` on in columns.

    A column has `steps_per_column` steps, the last step is `last_step`. At most MOST_LANES
    processes are included, the slowest ones; `left_out` counts the others. `median_ns` is the
    median over steps of what the median process took, `spread` has these for each step.
    """

    first_step: int
    last_step: int
    steps_per_column: int
    median_ns: float
    lanes: tuple[Lane, ...]
    left_out: int
    spread: StepSpread


def compare_steps(loops: Sequence[Loop], measure: Measure = "step") -> Ranks | Missing:
    """Return the comparison of a loop in several processes.

    "step" compares what a step took: a cell is that divided by the median of all processes.
    "between" compares the time before a step, which may be close to 0: a cell is 1 plus the excess
    over the median, as a ratio of the median step with the time before it.
    """
    if len({loop.process for loop in loops}) < 2:
        return ALONE
    stepped = [loop for loop in loops if len(loop.recent.start_ns)]
    if len(stepped) < 2:
        return _NO_STEP_IN_COMMON
    first = min(loop.recent.first_step for loop in stepped)
    last = max(loop.recent.first_step + len(loop.recent.start_ns) for loop in stepped) - 1
    step_ns, gap_ns = _times(stepped, first, last)
    alone = np.count_nonzero(~np.isnan(step_ns), axis=0) < 2
    step_ns[:, alone] = np.nan
    if np.isnan(step_ns).all():
        return _NO_STEP_IN_COMMON
    middle_ns = _median(step_ns)
    relative = step_ns / np.maximum(middle_ns, 1)
    if measure == "between":
        usual_ns = _median(gap_ns)
        relative = 1 + (gap_ns - usual_ns) / np.maximum(middle_ns + usual_ns, 1)
        middle_ns, step_ns = usual_ns, gap_ns
    lanes = _lanes(stepped, relative)
    by_lateness = sorted(lanes, key=lambda lane: -lane.middle_ratio)
    kept = {lane.process for lane in by_lateness[:MOST_LANES]}
    return Ranks(
        first_step=first,
        last_step=last,
        steps_per_column=_width(relative),
        median_ns=_middle(middle_ns),
        lanes=tuple(lane for lane in lanes if lane.process in kept),
        left_out=len(lanes) - len(kept),
        spread=_spread(stepped, step_ns, first),
    )


def _spread(loops: Sequence[Loop], times_ns: _Floats, first: int) -> StepSpread:
    at = np.flatnonzero(np.count_nonzero(~np.isnan(times_ns), axis=0) > 1)
    known = times_ns[:, at]
    most_ns = np.nanmax(known, axis=0) if len(at) else np.empty(0)
    width = max(-(-len(at) // MOST_POINTS), 1)
    parts = (slice(begin, begin + width) for begin in range(0, len(at), width))
    chosen = [part.start + int(np.argmax(most_ns[part])) for part in parts]
    shown = known[:, chosen]
    slowest = np.argmax(np.where(np.isnan(shown), -np.inf, shown), axis=0) if chosen else []
    return StepSpread(
        step=tuple((at[chosen] + first).tolist()),
        least_ns=tuple(np.nanmin(shown, axis=0).tolist()) if chosen else (),
        median_ns=tuple(_median(shown).tolist()) if chosen else (),
        most_ns=tuple(most_ns[chosen].tolist()),
        slowest=tuple(loops[int(row)].process for row in slowest),
    )


def _times(loops: Sequence[Loop], first: int, last: int) -> tuple[_Floats, _Floats]:
    """Return by process and step what steps took, and the time before them; NaN if unknown."""
    step_ns = np.full((len(loops), last - first + 1), np.nan)
    gap_ns = step_ns.copy()
    for at, loop in enumerate(loops):
        recent = loop.recent
        took_ns = (recent.end_ns - recent.start_ns).astype(np.float64)
        good = ~recent.raised & ~recent.sampled & (took_ns >= 0)
        took_ns[~good] = np.nan
        begin = recent.first_step - first
        step_ns[at, begin : begin + len(took_ns)] = took_ns
        before_ns = (recent.start_ns[1:] - recent.end_ns[:-1]).astype(np.float64)
        ours = lengthened_gaps(recent)[1:]
        before_ns[~good[1:] | ours | (before_ns < 0) | ~recent.has_gap[1:]] = np.nan
        gap_ns[at, begin + 1 : begin + len(took_ns)] = before_ns
    return step_ns, gap_ns


def _lanes(loops: Sequence[Loop], relative: _Floats) -> list[Lane]:
    known = ~np.isnan(relative)
    some = known.any(axis=0)
    slowest = np.argmax(np.where(known, relative, -np.inf), axis=0)[some]
    times_slowest = np.bincount(slowest, minlength=len(loops))
    cells = _cells(relative)
    return [
        Lane(
            process=loop.process,
            middle_ratio=_middle(relative[at]),
            slowest_ratio=float(times_slowest[at] / compared),
            compared=compared,
            cells=tuple(None if np.isnan(cell) else float(cell) for cell in cells[at].tolist()),
        )
        for at, loop in enumerate(loops)
        if (compared := int(known[at].sum()))
    ]


def _width(relative: _Floats) -> int:
    steps = int(relative.shape[1])
    return -(-steps // MOST_COLUMNS)


def _cells(relative: _Floats) -> _Floats:
    """Return the median of each process over each column."""
    lanes, steps = relative.shape
    width = _width(relative)
    columns = -(-steps // width)
    padded = np.full((lanes, columns * width), np.nan)
    padded[:, :steps] = relative
    return _median(np.moveaxis(padded.reshape(lanes, columns, width), 2, 0))


def _median(values: _Floats) -> _Floats:
    """Return medians of the known values along the first axis, NaN if there are none.

    numpy's own takes a hundred times as long if values are missing.
    """
    ordered = np.sort(values, axis=0)
    count = np.count_nonzero(~np.isnan(ordered), axis=0)
    low = np.maximum(count - 1, 0) // 2
    high = np.minimum(count // 2, len(ordered) - 1)
    found: _Floats = (
        np.take_along_axis(ordered, low[np.newaxis], axis=0)[0]
        + np.take_along_axis(ordered, high[np.newaxis], axis=0)[0]
    ) / 2
    return found


def _middle(values: _Floats) -> float:
    return float(np.median(values[~np.isnan(values)])) if not np.isnan(values).all() else 0.0
