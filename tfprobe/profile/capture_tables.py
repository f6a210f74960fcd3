"""Hold what a capture tells, a row each: executions of nodes, allocations, spans."""

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
    (accelerator). `nested_ns` of it is the time of ops that the op called, if these are rows, too,
    as in PyTorch. `bytes` is what the op asked of its allocators, `output_bytes` what its outputs
    hold; both are 0 where the recording has no memory records, as in an XSpace.
    `background` rows belong to threads that prepare later steps, such as tf.data workers.
    `detail` is the name of the kernel that ran for an op of an accelerator, or what a copy's record
    says of it ("kind_src:pageable kind_dst:device size:1024"); of an op that an iterator of tf.data
    runs, such as those of a Map's function, the path of that iterator; "" where nothing is known.
    `correlation` is the number that a kernel or copy shares with the driver call that launched it
    (see Spans), 0 where none is known. Below 0 it is one that an op on the host shares with the op
    that differentiates it. `collective` is what a collective is called in all ranks that take part:
    its group, what it does, and its number among those of the group ("0 allreduce 17"); "" where
    the recording does not number them, and for other ops.
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
        "nested_ns": np.int64,
        "bytes": np.int64,
        "output_bytes": np.int64,
        "detail": np.int32,
        "correlation": np.int64,
        "collective": np.int32,
    }

    device: Int32s
    lane: Int32s
    name: Int32s
    op_type: Int32s
    place: Int8s
    background: Flags
    start_ns: Int64s
    duration_ns: Int64s
    nested_ns: Int64s
    bytes: Int64s
    output_bytes: Int64s
    detail: Int32s
    correlation: Int64s
    collective: Int32s

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
                collective=self.strings[self.collective[at]],
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
    collective: str = ""


STRING_COLUMNS: tuple[str, ...] = ("device", "lane", "name", "op_type", "detail", "collective")


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


class SpanKind(IntEnum):
    """What was going on."""

    # A call of the driver or its runtime on a host thread; of those, one that puts a kernel on a
    # stream (cuLaunchKernel, cudaLaunchKernel, cuGraphLaunch ...), one that starts a copy or a
    # memset (cuMemcpyHtoDAsync_v2 ...), and one that waits for a device (cuStreamSynchronize,
    # cudaEventSynchronize, cuCtxSynchronize ...).
    RUNTIME = 0
    LAUNCH = 1
    COPY_CALL = 2
    SYNC = 3
    # A GetNext of an iterator of tf.data. The name is its path, "Iterator::Root::Prefetch::Map";
    # the detail is what TensorFlow says of it, "name:MapDataset:5 parallelism:2 ...".
    ITERATOR = 4
    # A function being traced or compiled: by Python ("tf.function-graph_building"), by XLA, or by
    # the runtime, grappler and all, before its first run ("prepare __inference_step_12").
    COMPILE = 5
    # The call of a tf.function by Python, from its conversion of arguments to its return; the
    # detail is what TensorFlow says of it ("traced-nonXla", "notTraced-nonXla" ...).
    FUNCTION_CALL = 6
    # Python code that an op runs: py_function, numpy_function, from_generator. The detail is the
    # path of the iterator of tf.data that it runs for, if any.
    PYTHON = 7
    # A function that an iterator of tf.data runs, such as a Map's, from its call to its end. The
    # name is the iterator's path, `identity` the run's own number, `parent` the iterator's.
    DATASET_FUNCTION = 8
    # The loop of the program takes the next batch from a loader, such as PyTorch's DataLoader, and
    # waits for other processes that prepare it, or prepares it itself. The name is the loader's.
    LOADER_WAIT = 9
    LOADER_WORK = 10
    # A part of the program that it names, or PyTorch: an annotation, the call of a module, the
    # backward pass. The detail is the phase of training, if it is one.
    SECTION = 11
    # A function of Python that took most of the time in which no op of its thread ran. The detail
    # is its line, or that of the program's function that called it.
    PYTHON_GAP = 12
    # What a function of the program called in a step, in sum, that trains nothing; and by which
    # stage a loader made a batch. The detail is the line of the function, `identity` the number of
    # calls, `parent` the line that called, 0 if unknown, the length that of all calls, from the
    # start of the first.
    PYTHON_CALLS = 13
    LOADER_CALLS = 14


@dataclass(frozen=True, slots=True)
class Spans(Table):
    """Spans of time on host threads, in unix ns, sorted within a capture by start.

    `lane` is the thread, `background` one that prepares later steps. `identity` and `parent` are
    the numbers of iterators, 0 for none. `correlation` is that of the kernel or copy a driver call
    starts (see Executions), 0 for none. `bytes` are those of what a copy call moves, 0 unknown.
    """

    DTYPES: ClassVar[Mapping[str, type[np.generic]]] = {
        "capture": np.int32,
        "kind": np.int8,
        "lane": np.int32,
        "name": np.int32,
        "detail": np.int32,
        "background": np.bool_,
        "start_ns": np.int64,
        "duration_ns": np.int64,
        "identity": np.int64,
        "parent": np.int64,
        "correlation": np.int64,
        "bytes": np.int64,
    }

    kind: Int8s
    lane: Int32s
    name: Int32s
    detail: Int32s
    background: Flags
    start_ns: Int64s
    duration_ns: Int64s
    identity: Int64s
    parent: Int64s
    correlation: Int64s
    bytes: Int64s
