"""Hold node executions as columns: one row per execution of a node, strings interned."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]
Int8s = npt.NDArray[np.int8]


class Place(IntEnum):
    """Where an execution was seen, which says what its time means."""

    # A host thread ran the op, or for an op of an accelerator scheduled it: "cpu time".
    HOST = 0
    # A kernel ran: "accelerator time".
    ACCELERATOR = 1
    HOST_TO_DEVICE = 2
    DEVICE_TO_HOST = 3
    DEVICE_TO_DEVICE = 4


@dataclass(frozen=True, slots=True)
class Strings:
    """Interned strings: a column holds positions in `values`."""

    values: tuple[str, ...]

    def __getitem__(self, position: int) -> str:
        return self.values[position]


@dataclass(frozen=True, slots=True)
class Executions:
    """Node executions, one per row; all columns have the same length.

    Times are unix ns; `duration_ns` is the time inside the op (host) or of the kernel
    (accelerator). `bytes` is what the op asked of its allocators, `output_bytes` what its outputs
    hold; both are 0 where the recording has no memory records, as in an XSpace.
    `background` rows belong to threads that prepare later steps, such as tf.data workers.
    """

    strings: Strings
    capture: Int32s
    device: Int32s
    lane: Int32s
    name: Int32s
    op_type: Int32s
    place: Int8s
    background: npt.NDArray[np.bool_]
    start_ns: Int64s
    duration_ns: Int64s
    bytes: Int64s
    output_bytes: Int64s

    def __len__(self) -> int:
        return len(self.capture)

    def only(self, chosen: npt.NDArray[np.bool_]) -> Executions:
        """Return the rows where `chosen` is true."""
        columns = {name: getattr(self, name)[chosen] for name in COLUMNS}
        return Executions(strings=self.strings, **columns)


COLUMNS: tuple[str, ...] = tuple(f.name for f in fields(Executions) if f.name != "strings")
STRING_COLUMNS: tuple[str, ...] = ("device", "lane", "name", "op_type")


class Row(NamedTuple):
    """One execution on its way into the columns.

    A NamedTuple, not a dataclass: a capture has tens of thousands, and zip turns them to columns.
    """

    device: str
    lane: str
    name: str
    op_type: str
    place: Place
    start_ns: int
    duration_ns: int
    bytes: int = 0
    output_bytes: int = 0
    background: bool = False


class TableBuilder:
    """Gather rows into columns, capture by capture: rows are columns before the next are read."""

    def __init__(self) -> None:
        """Start with no rows."""
        self._positions: dict[str, int] = {}
        self._parts: dict[str, list[npt.NDArray[Any]]] = {name: [_EMPTY[name]] for name in COLUMNS}

    def add(self, capture: int, rows: Sequence[Row]) -> None:
        """Append the rows of the capture with this index."""
        self._parts["capture"].append(np.full(len(rows), capture, dtype=np.int32))
        for name, values in zip(Row._fields, zip(*rows, strict=True), strict=False):
            column = _positions(values, self._positions) if name in STRING_COLUMNS else values
            self._parts[name].append(np.array(column, dtype=_DTYPES[name]))

    def table(self) -> Executions:
        """Return the columns of all rows added so far."""
        columns = {name: np.concatenate(parts) for name, parts in self._parts.items()}
        return Executions(strings=Strings(tuple(self._positions)), **columns)


def table(rows_by_capture: Iterable[tuple[int, Sequence[Row]]]) -> Executions:
    """Build the columns from the rows of each capture, given with its index."""
    builder = TableBuilder()
    for capture, rows in rows_by_capture:
        builder.add(capture, rows)
    return builder.table()


def _positions(values: Sequence[str], positions: dict[str, int]) -> list[int]:
    return [positions.setdefault(value, len(positions)) for value in values]


_DTYPES: dict[str, type[np.generic]] = {
    "capture": np.int32,
    "device": np.int32,
    "lane": np.int32,
    "name": np.int32,
    "op_type": np.int32,
    "place": np.int8,
    "background": np.bool_,
    "start_ns": np.int64,
    "duration_ns": np.int64,
    "bytes": np.int64,
    "output_bytes": np.int64,
}
_EMPTY: dict[str, npt.NDArray[Any]] = {
    name: np.empty(0, dtype=dtype) for name, dtype in _DTYPES.items()
}
