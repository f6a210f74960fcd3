"""Bring rows of captures in order."""

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
