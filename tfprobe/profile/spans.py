"""Hold what a capture tells beside executions: driver calls, iterators, tracing. One row each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar

import numpy as np

from tfprobe.profile.tables import Flags, Int8s, Int32s, Int64s, Table


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
