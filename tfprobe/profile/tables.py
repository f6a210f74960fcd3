"""Hold rows of captures as columns. What the columns of a table are, its class says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from tfprobe.profile.strings import Interner, Strings

Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]
Int8s = npt.NDArray[np.int8]
Flags = npt.NDArray[np.bool_]

T = TypeVar("T", bound="Table")


@dataclass(frozen=True, slots=True)
class Table:
    """Columns of the same length; those of text hold positions in `strings`."""

    DTYPES: ClassVar[Mapping[str, type[np.generic]]] = {"capture": np.int32}

    strings: Strings
    capture: Int32s

    def __len__(self) -> int:
        return len(self.capture)

    def only(self: T, chosen: Flags) -> T:
        """Return the rows where `chosen` is true; these very columns where it is everywhere."""
        if chosen.all():
            return self
        columns = {name: getattr(self, name)[chosen] for name in self.DTYPES}
        return type(self)(strings=self.strings, **columns)

    def by_capture(self: T) -> Iterator[tuple[int, T]]:
        """Give the rows of each capture, which stand together, and its number."""
        numbers, first = np.unique(self.capture, return_index=True)
        ends = [*first.tolist(), len(self)][1:]
        for number, start, end in zip(numbers.tolist(), first.tolist(), ends, strict=True):
            columns = {name: getattr(self, name)[start:end] for name in self.DTYPES}
            yield number, type(self)(strings=self.strings, **columns)

    def by(self: T, column: str) -> T:
        """Return the rows in the order of a column; equal ones as they are."""
        if len(self) < 2:
            return self
        return self.at(np.argsort(getattr(self, column), kind="stable"))

    def at(self: T, positions: Int64s) -> T:
        """Return the rows at these positions, in this order, as often as they are named."""
        columns = {name: getattr(self, name)[positions] for name in self.DTYPES}
        return type(self)(strings=self.strings, **columns)


class TableBuilder(Generic[T]):
    """Gather the rows of captures into one table. Their strings are positions in `interner`."""

    def __init__(self, kind: type[T], interner: Interner) -> None:
        """Start with no rows."""
        self.interner = interner
        self._kind = kind
        self._parts: dict[str, list[npt.NDArray[Any]]] = {
            name: [np.empty(0, dtype=dtype)] for name, dtype in kind.DTYPES.items()
        }

    def add(self, capture: int, rows: T) -> None:
        """Append the rows of the capture with this index."""
        self._parts["capture"].append(np.full(len(rows), capture, dtype=np.int32))
        for name in self._kind.DTYPES:
            if name != "capture":
                self._parts[name].append(getattr(rows, name))

    def table(self) -> T:
        """Return the columns of all rows that were added, which this gives away: call it once."""
        # Column by column: what is joined is let go, so that a large table is not in memory twice.
        columns = {name: np.concatenate(self._parts.pop(name)) for name in self._kind.DTYPES}
        return self._kind(strings=self.interner.strings(), **columns)


class Columns(Generic[T]):
    """The columns of one capture so far. Strings are positions in an interner of the reader's."""

    def __init__(self, kind: type[T]) -> None:
        """Start with no rows."""
        self._kind = kind
        self._parts: dict[str, list[npt.NDArray[Any]]] = {name: [] for name in kind.DTYPES}

    def add(self, count: int, **columns: Any) -> None:
        """Append so many rows; columns that are not given are 0, "" or false.

        Any: a column is an array, or one value that holds for all rows.
        """
        for name, dtype in self._kind.DTYPES.items():
            self._parts[name].append(_column(columns.get(name), count, dtype))

    def rows(self, interner: Interner) -> T:
        """Return all rows."""
        columns = {
            name: _joined(self._parts[name], dtype) for name, dtype in self._kind.DTYPES.items()
        }
        return self._kind(strings=interner.strings(), **columns)


def _column(value: Any, count: int, dtype: type[np.generic]) -> npt.NDArray[Any]:
    """Return a column of its own: what it was made from may change, or be part of much more."""
    if value is None:
        return np.zeros(count, dtype=dtype)
    given = np.asarray(value)
    if given.ndim == 0:
        return np.full(count, value, dtype=dtype)
    if len(given) != count:
        raise ValueError(f"a column of {len(given)} for {count} rows")
    return given.astype(dtype)


def _joined(parts: list[npt.NDArray[Any]], dtype: type[np.generic]) -> npt.NDArray[Any]:
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts) if parts else np.empty(0, dtype=dtype)


def used(column: Int32s) -> list[int]:
    """Return the strings that a column has, by position, each once and in order."""
    return np.flatnonzero(np.bincount(column)).tolist()


def having(strings: Strings, column: Int32s, is_wanted: Callable[[str], object]) -> Flags:
    """Say which rows of a column have a wanted string; each that it has is looked at once."""
    wanted = np.zeros(len(strings.values), dtype=np.bool_)
    for at in used(column):
        wanted[at] = bool(is_wanted(strings[at]))
    chosen: Flags = wanted[column]
    return chosen


def empty(kind: type[T]) -> T:
    """Return a table without rows."""
    return Columns(kind).rows(Interner())
