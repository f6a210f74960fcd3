"""Hold node executions as columns: one row per execution of a node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar, NamedTuple

import numpy as np

from tfprobe.profile.tables import Flags, Int8s, Int32s, Int64s, Table


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
class Executions(Table):
    """Node executions, one per row; all columns have the same length.

    Times are unix ns; `duration_ns` is the time inside the op (host) or of the kernel
    (accelerator). `bytes` is what the op asked of its allocators, `output_bytes` what its outputs
    hold; both are 0 where the recording has no memory records, as in an XSpace.
    `background` rows belong to threads that prepare later steps, such as tf.data workers.
    `detail` is the name of the kernel that ran for an op of an accelerator, or what a copy's record
    says of it ("kind_src:pageable kind_dst:device size:1024"); of an op that an iterator of tf.data
    runs, such as those of a Map's function, the path of that iterator; "" where nothing is known.
    `correlation` is the number that a kernel or copy shares with the driver call that launched it
    (see Spans), 0 where none is known.
    """

    DTYPES: ClassVar[Mapping[str, type[np.generic]]] = {
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
        "detail": np.int32,
        "correlation": np.int64,
    }

    device: Int32s
    lane: Int32s
    name: Int32s
    op_type: Int32s
    place: Int8s
    background: Flags
    start_ns: Int64s
    duration_ns: Int64s
    bytes: Int64s
    output_bytes: Int64s
    detail: Int32s
    correlation: Int64s

    def __iter__(self) -> Iterator[Row]:
        """Give the rows one by one, for those that look at a few."""
        for at in range(len(self)):
            yield Row(
                device=self.strings[self.device[at]],
                lane=self.strings[self.lane[at]],
                name=self.strings[self.name[at]],
                op_type=self.strings[self.op_type[at]],
                place=Place(self.place[at]),
                start_ns=int(self.start_ns[at]),
                duration_ns=int(self.duration_ns[at]),
                bytes=int(self.bytes[at]),
                output_bytes=int(self.output_bytes[at]),
                background=bool(self.background[at]),
                detail=self.strings[self.detail[at]],
                correlation=int(self.correlation[at]),
            )


class Row(NamedTuple):
    """One execution by itself."""

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
    detail: str = ""
    correlation: int = 0


STRING_COLUMNS: tuple[str, ...] = ("device", "lane", "name", "op_type", "detail")
