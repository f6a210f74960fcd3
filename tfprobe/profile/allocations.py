"""Hold what allocators gave and took back during captures. One row each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tfprobe.profile.tables import Int32s, Int64s, Table


@dataclass(frozen=True, slots=True)
class Allocations(Table):
    """Allocations (`bytes` above 0) and deallocations (below 0), sorted within a capture by time.

    Where `bytes` is 0 the allocator only said how much it held: a RunMetadata tells that when a
    node is done, and of what the node took before TensorFlow 1.5 or so only sums: then a row for
    what it held at most, and one for what of it the node gave back.

    `device` is that of the op, "" unknown; `op` and `op_type` the node the bytes were taken for,
    "" unknown; `shape` is text such as "float32[64,28,28,1]", "" unknown. `address` tells which
    deallocation belongs to which allocation, 0 unknown. `at_ns` is unix ns.

    What the allocator said of itself right after, each -1 where it said nothing: `in_use_bytes`
    held by tensors, `free_bytes` what it may give beside, whether reserved from the device already
    or not, `peak_bytes` the most it held so far, `largest_free_bytes` the largest piece it could
    give at once, as far as its fragmentation tells, which is that of what it has reserved.
    """

    DTYPES: ClassVar[Mapping[str, type[np.generic]]] = {
        "capture": np.int32,
        "allocator": np.int32,
        "device": np.int32,
        "op": np.int32,
        "op_type": np.int32,
        "shape": np.int32,
        "at_ns": np.int64,
        "bytes": np.int64,
        "address": np.int64,
        "in_use_bytes": np.int64,
        "free_bytes": np.int64,
        "peak_bytes": np.int64,
        "largest_free_bytes": np.int64,
    }

    allocator: Int32s
    device: Int32s
    op: Int32s
    op_type: Int32s
    shape: Int32s
    at_ns: Int64s
    bytes: Int64s
    address: Int64s
    in_use_bytes: Int64s
    free_bytes: Int64s
    peak_bytes: Int64s
    largest_free_bytes: Int64s
