"""Make columns of numbers that Python objects hold one by one."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tfprobe.errors import UnreadableInput
from tfprobe.profile.tables import Int32s, Int64s


def int32s(positions: Iterable[int], count: int) -> Int32s:
    """Return a column of so many positions."""
    return np.fromiter(positions, dtype=np.int32, count=count)


def signed(value: int) -> int:
    """Return a number of 64 bits, such as a hash or an address, with a sign, as columns have it."""
    return (value + 2**63) % 2**64 - 2**63


def int64s(values: Iterable[int]) -> Int64s:
    """Return a column of whole numbers.

    Raises UnreadableInput where one does not fit: no clock and no memory is that large.
    """
    try:
        return np.fromiter(values, dtype=np.int64)
    except OverflowError as exc:
        raise UnreadableInput("a time or size that does not fit into 64 bits") from exc
