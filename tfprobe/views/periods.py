"""Find what comes back every Nth step among steps that stand out."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tfprobe.views.remembered import Flags, Int64s

# Three times may be chance to a reader, whatever a formula says.
LEAST_TIMES = 4
# Of all steps whose turn it was, so many must stand out.
LEAST_HELD_RATIO = 0.8
# How likely chance alone may yield any of all the periods that are tried, each of three times.
CHANCE = 0.003
# Rhythms within rhythms: summaries every 10, checkpoints every 100, an evaluation every 1,000.
MOST_PERIODS = 3
# Periods that are looked at together.
_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class Period:
    """Steps `first`, `first + every` ... stand out: `times` of the `turns` that were looked at."""

    every: int
    first: int
    times: int
    turns: int


def periods(first_step: int, looked_at: Flags, stands_out: Flags) -> tuple[Period, ...]:
    """Return the periods in which steps stand out, the one that explains most first.

    Row i of the flags is step `first_step + i`. `stands_out` are steps that do, of those
    `looked_at`; what one period explains is taken out before the next is looked for.
    """
    found: list[Period] = []
    left = stands_out & looked_at
    while len(found) < MOST_PERIODS and (period := _best(looked_at, left)):
        left[period.first % period.every :: period.every] = False
        found.append(period)
    return tuple(
        Period(each.every, first_step + each.first, each.times, each.turns) for each in found
    )


def _best(looked_at: Flags, stands_out: Flags) -> Period | None:
    """Return the period with most of what stands out and least of what does not."""
    rows = np.flatnonzero(stands_out)
    if len(rows) < LEAST_TIMES:
        return None
    longest = int(rows[-1] - rows[0]) // (LEAST_TIMES - 1)
    rate = len(rows) / int(looked_at.sum())
    tried = _tried(rows, looked_at, longest)
    held = [each for each in tried if _is_no_chance(each, rate, longest)]
    return max(held, key=lambda each: each.times**2 / each.turns, default=None)


def _tried(rows: Int64s, looked_at: Flags, longest: int) -> Iterator[Period]:
    """Give of each period up to the longest its best turn, where enough of them stand out."""
    ignored = len(looked_at) - int(np.count_nonzero(looked_at))
    for shortest in range(2, longest + 1, _AT_ONCE):
        every = np.arange(shortest, min(shortest + _AT_ONCE, longest + 1))
        width = int(every[-1])
        turn = rows % every[:, None] + width * np.arange(len(every))[:, None]
        counts = np.bincount(turn.ravel(), minlength=width * len(every)).reshape(-1, width)
        residue, times = counts.argmax(axis=1), counts.max(axis=1)
        fewest = -(-(len(looked_at) - residue) // every) - ignored
        likely = (times >= LEAST_TIMES) & (times >= LEAST_HELD_RATIO * fewest)
        for at in np.flatnonzero(likely).tolist():
            yield from _period(rows, looked_at, int(every[at]), int(residue[at]))


def _period(rows: Int64s, looked_at: Flags, every: int, residue: int) -> Iterator[Period]:
    mine = rows[rows % every == residue]
    turns = int(np.count_nonzero(looked_at[residue::every]))
    if len(mine) >= LEAST_HELD_RATIO * turns:
        yield Period(every, int(mine[0]), len(mine), turns)


def _is_no_chance(period: Period, rate: float, longest: int) -> bool:
    """Say whether so many at once are unlikely, by Chernoff's bound on the binomial distribution.

    All residues of all periods up to `longest` could have been the one.
    """
    held = period.times / period.turns
    if held <= rate:
        return False
    divergence = held * math.log(held / rate)
    if held < 1:
        divergence += (1 - held) * math.log((1 - held) / (1 - rate))
    tried = longest * (longest + 1) / 2
    return math.log(tried) - period.turns * divergence < math.log(CHANCE)
