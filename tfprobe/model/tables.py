"""Hold rows of captures as columns. What the columns of a table are, its class says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from tfprobe.model.strings import Interner, Strings

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
        self._parts: dict[str, list[npt.NDArray[Any]]] = {
            name: [np.empty(0, dtype=dtype)] for name, dtype in kind.DTYPES.items()
        }

    def add(self, count: int, **columns: Any) -> None:
        """Append so many rows; columns that are not given are 0, "" or false.

        Any: a column is an array, or one value that holds for all rows.
        """
        for name, dtype in self._kind.DTYPES.items():
            column = np.broadcast_to(columns.get(name, 0), count)
            self._parts[name].append(column.astype(dtype))

    def rows(self, interner: Interner) -> T:
        """Return all rows."""
        columns = {name: np.concatenate(parts) for name, parts in self._parts.items()}
        return self._kind(strings=interner.strings(), **columns)


def empty(kind: type[T]) -> T:
    """Return a table without rows."""
    return Columns(kind).rows(Interner())
