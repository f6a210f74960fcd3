"""Make profiles comparable: two that were read in different ways place their texts differently."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from tfprobe.profile.tables import Table


def plain(value: Any) -> Any:
    """Return a profile, or a part of one, as things that compare; texts stand for themselves."""
    if isinstance(value, Table):
        columns = {n: getattr(value, n) for n in value.DTYPES}
        texts = {n for n, dtype in value.DTYPES.items() if dtype is np.int32} - {"capture"}
        return {
            n: [value.strings[at] for at in column.tolist()] if n in texts else column.tolist()
            for n, column in columns.items()
        }
    if isinstance(value, np.ndarray):
        return value.tolist()
    if dataclasses.is_dataclass(value):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, tuple):
        return [plain(each) for each in value]
    return value
