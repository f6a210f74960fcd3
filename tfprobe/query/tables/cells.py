"""Turn values and columns of ours into the arrays that DuckDB takes: NULL where one is Missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tfprobe.errors import Missing
from tfprobe.query.tables.shapes import Shape

# Any: an array of whatever a column holds; those of text hold objects.
Array = npt.NDArray[Any]
_SMALLEST, _LARGEST = -(2**63), 2**63 - 1


def columns(shape: Shape, rows: Sequence[Sequence[Any]]) -> Mapping[str, Array]:
    """Return rows as columns. Any: a value is what its column holds, None or Missing."""
    by_column = zip(*rows, strict=True) if rows else ((),) * len(shape.columns)
    return {
        column.name: _MAKERS[column.type](values)
        for column, values in zip(shape.columns, by_column, strict=True)
    }


def plain(text: str) -> str:
    """Return text that UTF-8 can hold: what names bytes that were none is told as an escape."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode()
    return text


def texts(values: Sequence[str | None]) -> Array:
    """Return texts as objects."""
    return _objects([None if value is None else plain(value) for value in values])


def _is_unknown(value: object) -> bool:
    return value is None or isinstance(value, Missing)


def _whole(values: Sequence[Any]) -> Array:
    # A damaged line may hold a number of any length, which no clock or counter has.
    unknown = [_is_unknown(each) or not _SMALLEST <= each <= _LARGEST for each in values]
    known = [0 if lost else value for value, lost in zip(values, unknown, strict=True)]
    return np.ma.masked_array(np.array(known, dtype=np.int64), mask=unknown)


def _real(values: Sequence[Any]) -> Array:
    unknown = [_is_unknown(each) for each in values]
    known = [0.0 if lost else value for value, lost in zip(values, unknown, strict=True)]
    return np.ma.masked_array(np.array(known, dtype=np.float64), mask=unknown)


def _truth(values: Sequence[Any]) -> Array:
    return np.array(values, dtype=np.bool_)


def _text(values: Sequence[Any]) -> Array:
    return texts([None if _is_unknown(each) else str(each) for each in values])


def _lists(values: Sequence[Any]) -> Array:
    return _objects(
        [None if _is_unknown(each) else [plain(one) for one in each] for each in values]
    )


def _objects(values: Sequence[Any]) -> Array:
    # np.array would take lists of one length for a second dimension.
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found


_MAKERS = {
    "BIGINT": _whole,
    "BOOLEAN": _truth,
    "DOUBLE": _real,
    "VARCHAR": _text,
    "VARCHAR[]": _lists,
}
