"""Arrange node executions by op type: how often, how long, where, how many bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tfprobe.errors import Missing
from tfprobe.profile.capture_tables import Executions, Place
from tfprobe.profile.profile import Profile

Int64s = npt.NDArray[np.int64]

# Those of OpSums.
_COLUMNS = 5


@dataclass(frozen=True, slots=True)
class OpType:
    """One op type, summed over the traced steps.

    `cpu_ns` is time inside the op on a host thread; for an op of an accelerator that is its
    scheduling. `accelerator_ns` is time of its kernels. `total_ns` is their sum, as in tfprof:
    the two may overlap in time, and ops on several threads do, so totals may exceed the steps.
    `occurrences` counts executions of nodes: of host rows, or of kernels where there are none.
    `bytes` is what the op asked of its allocators; see `OpTable.has_bytes`.
    """

    type: str
    occurrences: int
    total_ns: int
    accelerator_ns: int
    cpu_ns: int
    bytes: int


@dataclass(frozen=True, slots=True)
class OpTable:
    """Op types by total time, longest first, over `captures` traced steps."""

    types: tuple[OpType, ...]
    captures: int
    has_bytes: bool

    @property
    def total_ns(self) -> int:
        return sum(op.total_ns for op in self.types)


@dataclass(frozen=True, slots=True)
class OpSums:
    """What ops of a process, or of several, took: a part of an op table.

    A row of `sums` is of one of the `types`: rows on the host, kernels, and the ns of both, bytes.
    """

    types: tuple[str, ...]
    sums: Int64s
    captures: int
    rows: int
    has_bytes: bool


def part(profile: Profile) -> OpSums:
    """Return the sums of all traced steps; transfers are no ops and are left to the breakdown."""
    rows = profile.executions
    on_host = rows.place == Place.HOST
    on_accelerator = rows.place == Place.ACCELERATOR
    columns = (
        _per_type(rows, on_host),
        _per_type(rows, on_accelerator),
        _per_type(rows, on_host, rows.duration_ns),
        _per_type(rows, on_accelerator, rows.duration_ns),
        _per_type(rows, on_host, rows.bytes),
    )
    there = np.flatnonzero(columns[0] + columns[1])
    return OpSums(
        types=tuple(rows.strings[at] for at in there.tolist()),
        sums=np.stack(columns, axis=1)[there],
        captures=len(profile.captures),
        rows=len(rows),
        has_bytes=bool(rows.bytes.any()),
    )


def merge(parts: Sequence[OpSums]) -> OpTable | Missing:
    """Return the op table over all parts."""
    captures = sum(each.captures for each in parts)
    if not captures:
        return Missing("no step was traced")
    if not any(each.rows for each in parts):
        return Missing("the traced steps hold no execution of an op")
    numbers: dict[str, int] = {}
    at = [numbers.setdefault(name, len(numbers)) for each in parts for name in each.types]
    sums = np.zeros((len(numbers), _COLUMNS), dtype=np.int64)
    np.add.at(sums, np.array(at, dtype=np.int64), np.concatenate([each.sums for each in parts]))
    types = [_type(name, *row) for name, row in zip(numbers, sums.tolist(), strict=True)]
    types.sort(key=lambda op: (-op.total_ns, op.type))
    return OpTable(tuple(types), captures, any(each.has_bytes for each in parts))


def by_type(profile: Profile) -> OpTable | Missing:
    """Return the op table of a profile."""
    return merge((part(profile),))


def _type(
    name: str, on_host: int, kernels: int, cpu_ns: int, accelerator_ns: int, requested: int
) -> OpType:
    return OpType(
        type=name,
        occurrences=on_host or kernels,
        total_ns=cpu_ns + accelerator_ns,
        accelerator_ns=accelerator_ns,
        cpu_ns=cpu_ns,
        bytes=requested,
    )


def _per_type(
    rows: Executions,
    chosen: npt.NDArray[np.bool_],
    amount: Int64s | None = None,
) -> Int64s:
    sums = np.zeros(len(rows.strings.values), dtype=np.int64)
    np.add.at(sums, rows.op_type[chosen], 1 if amount is None else amount[chosen])
    return sums
