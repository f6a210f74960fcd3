"""Name the processes that are slower than their team by more than chance.

Works on tables of times, whatever times they are: a row is a process, a column a step.
Names nobody where the times of a process, or the differences among its team, may be noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from tfprobe.analysis.core.robust_statistics import MAD_OF_NORMAL

Floats = npt.NDArray[np.float64]

# How likely one of a whole team is named where all are alike, by each of the two tests; it must
# pass both.
_TEAM_RISK = 1e-3
_OWN_RISK = 5e-2
# Less is not worth a look. Where there are few to compare with, they say little of what is usual.
LEAST_EXCESS_RATIO = 0.02
_LEAST_OF_FEW_RATIO = 0.05
_LEAST_OF_TWO_RATIO = 0.1
FEW = 8
_LEAST_STEPS = 5
# It must be slow in most parts of the run: one bad hour is another question.
_BLOCKS = 8
_MOST_BLOCKS_RATIO = 0.75
# With fewer steps to a block, blocks scatter by the noise of single steps alone.
_LEAST_OF_BATCHES = 8 * _BLOCKS
# Among few the spread of the others is what lies between their first and their last, so many times.
_SPREADS_OF_FEW = 2.0
# Beyond what rounding and timers do to equal processes.
_LEAST_SPREAD = 1e-4


@dataclass(frozen=True, slots=True)
class Late:
    """How late a process is beside its team.

    `excess_ratio` is what it takes longer than the middle process at the same step, as a part of
    the step: a mean over steps without the highest and lowest quarter. `z` is how far that is from
    the middle of the team in units of the team's spread (0.6745 by MAD), `own_z` how far in units
    of what its own steps, and parts of the run, scatter; of two both are that. `steps` are those
    compared. `is_named` says that it is no chance.
    """

    row: int
    excess_ratio: float
    z: float
    own_z: float
    steps: int
    is_named: bool


def late(times_ns: Floats, cycle_ns: Floats) -> tuple[Late, ...]:
    """Return how late each process with enough steps is, in the order of the rows.

    `times_ns` has a row for each process and a column for each step, NaN where nothing is known;
    `cycle_ns` is the usual time of each step with all that belongs to it. Only steps are compared
    that two processes or more know.
    """
    excess = excesses(times_ns, cycle_ns)
    counts = np.count_nonzero(~np.isnan(excess), axis=1)
    rows = np.flatnonzero(counts >= _LEAST_STEPS)
    if len(rows) < 2:
        return ()
    means = np.array([_midmean(_known(excess[row])) for row in rows.tolist()])
    errors = np.array([_error_of_midmean(_known(excess[row])) for row in rows.tolist()])
    return tuple(
        _judge(excess[row], row, means, errors, at) for at, row in enumerate(rows.tolist())
    )


def excesses(times_ns: Floats, cycle_ns: Floats) -> Floats:
    """Return by how much each time is longer than the middle process's at the same step, as a part
    of the step.
    """
    alone = np.count_nonzero(~np.isnan(times_ns), axis=0) < 2
    compared = np.where(alone[np.newaxis], np.nan, times_ns)
    some = ~np.isnan(compared).all(axis=0)
    found = np.full(times_ns.shape, np.nan)
    middle = np.nanmedian(compared[:, some], axis=0)
    found[:, some] = (compared[:, some] - middle) / np.maximum(cycle_ns[some], 1)
    return found


def _judge(excess: Floats, row: int, means: Floats, errors: Floats, at: int) -> Late:
    own = _known(excess)
    others = np.delete(means, at)
    middle = float(np.median(means)) if len(means) >= FEW else float(np.median(others))
    beyond = float(means[at]) - middle
    own_z = beyond / max(float(errors[at]), _LEAST_SPREAD)
    risk = _TEAM_RISK if len(means) == 2 else _OWN_RISK
    # One other has no spread: its own steps alone say what is usual.
    z = own_z if len(means) == 2 else beyond / max(_spread(means, errors, at), _LEAST_SPREAD)
    is_named = (
        beyond >= _least(len(means))
        and z >= _limit_of_team(len(means))
        and own_z >= _quantile(risk / len(means), _freedom(own))
        and _is_lasting(own - middle, beyond)
    )
    return Late(row, beyond, z, own_z, len(own), is_named)


def _least(processes: int) -> float:
    if processes == 2:
        return _LEAST_OF_TWO_RATIO
    return _LEAST_OF_FEW_RATIO if processes < FEW else LEAST_EXCESS_RATIO


def _spread(means: Floats, errors: Floats, at: int) -> float:
    """Return by how much a process may be off the middle by chance, given those of the team.

    What its own steps scatter more than the middle one's do is added: its mean is the less sure.
    """
    if len(means) < FEW:
        others = np.delete(means, at)
        return float(others.max() - others.min())
    of_team = float(np.median(np.abs(means - np.median(means)))) / MAD_OF_NORMAL
    more = max(float(errors[at]) ** 2 - float(np.median(errors)) ** 2, 0.0)
    return math.sqrt(of_team**2 + more)


def _limit_of_team(processes: int) -> float:
    if processes < FEW:
        return _SPREADS_OF_FEW
    return _quantile(_TEAM_RISK / processes, processes - 1)


def _quantile(risk: float, freedom: int) -> float:
    """Return what Student's t exceeds with this risk (Abramowitz and Stegun, 26.7.5)."""
    z = NormalDist().inv_cdf(1 - risk)
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    return z + first / freedom + second / freedom**2


def _midmean(values: Floats) -> float:
    """Return the mean of the middle half: nearly as steady as a mean, unmoved by wild values."""
    ordered = np.sort(values)
    cut = len(ordered) // 4
    return float(ordered[cut : len(ordered) - cut].mean())


def _error_of_midmean(values: Floats) -> float:
    """Return its standard error: that of the winsorised values (Tukey and McLaughlin, 1963).

    A busy machine slows many steps in a row, which are then not independent: the midmeans of parts
    of the run scatter more than this says, and their own standard error counts (batch means).
    """
    ordered = np.sort(values)
    count, cut = len(ordered), len(ordered) // 4
    winsorised = np.clip(ordered, ordered[cut], ordered[count - cut - 1])
    kept = (count - 2 * cut) / count
    error = float(winsorised.std(ddof=1)) / (kept * math.sqrt(count))
    if count < _LEAST_OF_BATCHES:
        return error
    batches = [_midmean(each) for each in np.array_split(values, _BLOCKS)]
    return max(error, float(np.std(batches, ddof=1)) / math.sqrt(_BLOCKS))


def _freedom(values: Floats) -> int:
    return (_BLOCKS if len(values) >= _LEAST_OF_BATCHES else len(values)) - 1


def _is_lasting(excess: Floats, beyond: float) -> bool:
    """Say whether it is late in most parts of the run, by half of what it is on the whole."""
    blocks = np.array_split(excess, min(_BLOCKS, len(excess) // 2))
    late_blocks = sum(float(np.median(block)) > beyond / 2 for block in blocks)
    return late_blocks >= _MOST_BLOCKS_RATIO * len(blocks)


def _known(values: Floats) -> Floats:
    found: Floats = values[~np.isnan(values)]
    return found
