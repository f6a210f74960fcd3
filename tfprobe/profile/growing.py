"""Hold rows of captures as columns that grow: more captures may come at any time, and go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic

import numpy as np
import numpy.typing as npt

from tfprobe.profile.strings import Interner
from tfprobe.profile.tables import T

# What captures stand in order by: texts, such as host, process and file.
Key = tuple[str, ...]
Columns = dict[str, npt.NDArray[Any]]

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
        self._columns: Columns = {n: np.empty(0, dtype=d) for n, d in kind.DTYPES.items()}
        self._new: dict[Key, Columns] = {}
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
