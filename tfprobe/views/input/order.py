"""Find the rows of a capture in a table without looking at all others."""

from __future__ import annotations

import numpy as np

from tfprobe.model.tables import T


def in_order(rows: T) -> T:
    """Return the rows by capture, otherwise in the order they have."""
    if not (np.diff(rows.capture) < 0).any():
        return rows
    order = np.argsort(rows.capture, kind="stable")
    columns = {name: getattr(rows, name)[order] for name in rows.DTYPES}
    return type(rows)(strings=rows.strings, **columns)


def rows_of(rows: T, capture: int) -> slice:
    """Return where the rows of a capture are in a table that is in order."""
    low, high = np.searchsorted(rows.capture, [capture, capture + 1]).tolist()
    return slice(low, high)
