"""Add up what belongs to one node, and say where the sum does not fit."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tfprobe.errors import UnreadableInput
from tfprobe.profile.tables import Flags, Int64s

# Below it a bound of a sum leaves room for that of another part.
_SMALL = 2**60


class Sums(NamedTuple):
    """Sums of 64 bits; `overflows` says which do not fit, None where all do."""

    values: Int64s
    overflows: Flags | None

    def at(self, rows: Int64s) -> Int64s:
        """Return the sums at these places.

        Raises UnreadableInput where one does not fit.
        """
        if self.overflows is not None and self.overflows[rows].any():
            raise UnreadableInput("a time or size that does not fit into 64 bits")
        return self.values[rows]


def sums(count: int, *parts: tuple[Int64s, Int64s]) -> Sums:
    """Return `count` sums of values; each part is places, upwards, and the values to add there."""
    total = np.zeros(count, dtype=np.int64)
    for owner, values in parts:
        total += _sums(count, owner, values)
    if all(_are_small(values) for _, values in parts):
        return Sums(total, None)
    exact = [0] * count
    for owner, values in parts:
        for at, value in zip(owner.tolist(), values.tolist(), strict=True):
            exact[at] += value
    overflows = [not -(2**63) <= value < 2**63 for value in exact]
    return Sums(total, np.array(overflows, dtype=np.bool_))


def _sums(count: int, owner: Int64s, values: Int64s) -> Int64s:
    # Exact modulo 2 ** 64, as the difference of two such sums is.
    running = np.zeros(len(values) + 1, dtype=np.int64)
    np.cumsum(values, out=running[1:])
    after = np.cumsum(np.bincount(owner, minlength=count))
    return np.diff(running[after], prepend=0)


def _are_small(values: Int64s) -> bool:
    if not len(values):
        return True
    return max(int(values.max()), -int(values.min())) * len(values) < _SMALL
