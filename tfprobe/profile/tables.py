"""Hold rows of captures as columns that may grow; each string is held once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from tfprobe.errors import UnreadableInput

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


@dataclass(frozen=True, slots=True)
class Strings:
    """Interned strings: a column holds positions in `values`."""

    values: tuple[str, ...]

    def __getitem__(self, position: int) -> str:
        return self.values[position]


class Interner:
    """Gives each string a position, the same one whenever it comes again."""

    def __init__(self) -> None:
        """Start with the empty string, at position 0: what columns of text hold by default."""
        self._positions: dict[str, int] = {"": 0}
        self._texts: list[str] = [""]
        self._given = Strings(("",))

    def __len__(self) -> int:
        """Return how many strings have a position."""
        return len(self._texts)

    def position(self, text: str) -> int:
        """Return the position of a string."""
        known = self._positions.get(text)
        if known is None:
            known = self._positions[text] = len(self._texts)
            self._texts.append(text)
        return known

    def text(self, position: int) -> str:
        """Return the string at a position."""
        return self._texts[position]

    def strings(self) -> Strings:
        """Return all strings so far, each at its position."""
        # The tables of a capture share them, and so do captures without new ones.
        if len(self._given.values) != len(self._texts):
            self._given = Strings(tuple(self._texts))
        return self._given


# What captures stand in order by: texts, such as host, process and file.
Key = tuple[str, ...]
ColumnArrays = dict[str, npt.NDArray[Any]]

# Room for a quarter more is made where columns must move: then each row moves five times at most.
_GROWTH = 1.25


class GrowingTable(Generic[T]):
    """The rows of captures in the order of their keys. Strings are positions in `interner`.

    A table that was given keeps its rows whatever comes later. Captures whose keys come last are
    appended; where one is put before others, or goes, the columns are made anew.
    """

    def __init__(self, kind: type[T], interner: Interner) -> None:
        """Start with no rows."""
        self._kind = kind
        self._interner = interner
        self._lengths: dict[Key, int] = {}
        self._columns: ColumnArrays = {n: np.empty(0, dtype=d) for n, d in kind.DTYPES.items()}
        self._new: dict[Key, ColumnArrays] = {}
        self._gone: set[Key] = set()
        self._given: T | None = None

    def put(self, key: Key, rows: T) -> None:
        """Add the rows of one more capture, or others of one that is there."""
        self.drop(key)
        self._new[key] = {name: getattr(rows, name) for name in self._kind.DTYPES}

    def drop(self, key: Key) -> None:
        """Remove the rows of a capture, if it is there."""
        self._new.pop(key, None)
        if key in self._lengths:
            self._gone.add(key)

    def table(self) -> T:
        """Return all rows, the same table while nothing has changed.

        `capture` is the place of their capture among all.
        """
        strings = self._interner.strings()
        is_new = bool(self._new or self._gone)
        if self._given is not None and not is_new and self._given.strings is strings:
            return self._given
        last = next(reversed(self._lengths), None)
        if self._gone or (last is not None and any(key < last for key in self._new)):
            self._rebuild()
        elif self._new:
            self._append()
        count = sum(self._lengths.values())
        columns = {name: column[:count] for name, column in self._columns.items()}
        self._given = self._kind(strings=strings, **columns)
        return self._given

    def _append(self) -> None:
        keys, begin = sorted(self._new), sum(self._lengths.values())
        for number, key in enumerate(keys, start=len(self._lengths)):
            length = self._lengths[key] = len(self._new[key]["capture"])
            self._new[key]["capture"] = np.full(length, number, dtype=np.int32)
        end = sum(self._lengths.values())
        # Column by column: what is joined is let go, so that not all is in memory twice.
        for name, column in self._columns.items():
            parts = [self._new[key].pop(name) for key in keys]
            self._columns[name] = _extended(column, parts, begin, end)
        self._new.clear()

    def _rebuild(self) -> None:
        begins, begin = {}, 0
        for key, length in self._lengths.items():
            begins[key] = slice(begin, begin := begin + length)
        lengths = {key: n for key, n in self._lengths.items() if key not in self._gone}
        lengths |= {key: len(columns["capture"]) for key, columns in self._new.items()}
        self._lengths = {key: lengths[key] for key in sorted(lengths)}
        for name in self._kind.DTYPES:
            column = self._columns[name]
            parts = [
                self._new[key].pop(name) if key in self._new else column[begins[key]]
                for key in self._lengths
            ]
            self._columns[name] = np.concatenate([column[:0], *parts])
        numbers = np.arange(len(self._lengths), dtype=np.int32)
        self._columns["capture"] = np.repeat(numbers, list(self._lengths.values()))
        self._new.clear()
        self._gone.clear()


def _extended(
    column: npt.NDArray[Any], parts: Sequence[npt.NDArray[Any]], begin: int, end: int
) -> npt.NDArray[Any]:
    """Return a column whose rows from `begin` to `end` are these; those before stay where they are.

    Tables that were given have these very columns, up to where they ended then.
    """
    if begin == 0:
        return np.concatenate([column[:0], *parts])
    if len(column) < end:
        room = np.empty(max(end, int(begin * _GROWTH)), dtype=column.dtype)
        room[:begin] = column[:begin]
        column = room
    np.concatenate(parts, out=column[begin:end])
    return column


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
