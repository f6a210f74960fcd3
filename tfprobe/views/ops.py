"""Arrange node executions by op type: how often, how long, where, how many bytes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tfprobe.errors import Missing
from tfprobe.model.executions import Executions, Place
from tfprobe.model.profile import Profile


@dataclass(frozen=True, slots=True)
class OpType:
    """One op type, summed over the sampled steps.

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
    """Op types by total time, longest first, over `captures` sampled steps."""

    types: tuple[OpType, ...]
    captures: int
    has_bytes: bool

    @property
    def total_ns(self) -> int:
        return sum(op.total_ns for op in self.types)


def by_type(profile: Profile) -> OpTable | Missing:
    """Return the op table; transfers are no ops and are left to the breakdown."""
    if not profile.captures:
        return Missing("no step was sampled")
    rows = profile.executions
    if not len(rows):
        return Missing("the sampled steps hold no execution of an op")
    types = sorted(_types(rows), key=lambda op: (-op.total_ns, op.type))
    return OpTable(tuple(types), len(profile.captures), bool(rows.bytes.any()))


def _types(rows: Executions) -> list[OpType]:
    on_host = rows.place == Place.HOST
    on_accelerator = rows.place == Place.ACCELERATOR
    host_count = _per_type(rows, on_host)
    kernel_count = _per_type(rows, on_accelerator)
    cpu_ns = _per_type(rows, on_host, rows.duration_ns)
    accelerator_ns = _per_type(rows, on_accelerator, rows.duration_ns)
    requested = _per_type(rows, on_host, rows.bytes)
    return [
        OpType(
            type=rows.strings[int(i)],
            occurrences=int(host_count[i] or kernel_count[i]),
            total_ns=int(cpu_ns[i] + accelerator_ns[i]),
            accelerator_ns=int(accelerator_ns[i]),
            cpu_ns=int(cpu_ns[i]),
            bytes=int(requested[i]),
        )
        for i in np.flatnonzero(host_count + kernel_count)
    ]


def _per_type(
    rows: Executions,
    chosen: npt.NDArray[np.bool_],
    amount: npt.NDArray[np.int64] | None = None,
) -> npt.NDArray[np.int64]:
    sums = np.zeros(len(rows.strings.values), dtype=np.int64)
    np.add.at(sums, rows.op_type[chosen], 1 if amount is None else amount[chosen])
    return sums
