"""Name the parts of a step's cycle, their priority where they overlap, and the part of each op row.

Rows are classified by their names: which ops read input, wait or save, how wide a kernel computes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import Enum
from typing import NamedTuple

import numpy as np

from tfprobe.analysis.core.collective_ops import names_collective
from tfprobe.analysis.core.names import is_of_loader, is_pytorch
from tfprobe.profile.capture_tables import Executions, Place
from tfprobe.profile.tables import Flags, Int8s, Int32s, used


class Part(Enum):
    """What a moment of a step's cycle was spent on. The value is its name in documents."""

    # Before the accelerator: the step waits for tf.data or a queue; arrays are converted and fed;
    # Python makes the next batch; bytes are copied to the device.
    INPUT_WAIT = "input_wait"
    FEED = "feed"
    HOST_PREPROCESS = "host_preprocess"
    HOST_TO_DEVICE = "host_to_device"
    # On it: kernels by precision; copies within and between devices; collectives; the host launches
    # kernels; and what the host computes itself, for a CPU job nearly everything.
    DEVICE_COMPUTE_16BIT = "device_compute_16bit"
    DEVICE_COMPUTE_32BIT = "device_compute_32bit"
    DEVICE_COMPUTE_OTHER = "device_compute_other"
    DEVICE_TO_DEVICE = "device_to_device"
    COLLECTIVES = "collectives"
    KERNEL_LAUNCH = "kernel_launch"
    HOST_COMPUTE = "host_compute"
    # After it.
    DEVICE_TO_HOST = "device_to_host"
    FETCH = "fetch"
    CALLBACKS = "callbacks"
    SUMMARIES = "summaries"
    CHECKPOINTS = "checkpoints"
    # None of the three: a function is traced or compiled; the host waits for a device or another
    # process; the trace of this step is started and collected; none of the above.
    COMPILE = "compile"
    SYNC_WAIT = "sync_wait"
    RECORDING = "recording"
    IDLE = "idle"

    # Sums by part are everywhere, and Enum's own hash takes longer than the sum.
    __hash__ = object.__hash__


# Their names in text.
LABELS: Mapping[Part, str] = {
    Part.INPUT_WAIT: "input wait",
    Part.FEED: "feed",
    Part.HOST_PREPROCESS: "preprocessing",
    Part.HOST_TO_DEVICE: "host to device",
    Part.DEVICE_COMPUTE_16BIT: "device compute, 16 bit",
    Part.DEVICE_COMPUTE_32BIT: "device compute, 32 bit",
    Part.DEVICE_COMPUTE_OTHER: "device compute",
    Part.DEVICE_TO_DEVICE: "device to device",
    Part.COLLECTIVES: "collectives",
    Part.KERNEL_LAUNCH: "kernel launch",
    Part.HOST_COMPUTE: "host compute",
    Part.DEVICE_TO_HOST: "device to host",
    Part.FETCH: "fetch",
    Part.CALLBACKS: "callbacks",
    Part.SUMMARIES: "summaries",
    Part.CHECKPOINTS: "checkpoints",
    Part.COMPILE: "compile",
    Part.SYNC_WAIT: "sync wait",
    Part.RECORDING: "recording",
    Part.IDLE: "idle",
}

GROUPS: Mapping[str, tuple[Part, ...]] = {
    "before": (Part.INPUT_WAIT, Part.FEED, Part.HOST_PREPROCESS, Part.HOST_TO_DEVICE),
    "on": (
        Part.DEVICE_COMPUTE_16BIT,
        Part.DEVICE_COMPUTE_32BIT,
        Part.DEVICE_COMPUTE_OTHER,
        Part.DEVICE_TO_DEVICE,
        Part.COLLECTIVES,
        Part.KERNEL_LAUNCH,
        Part.HOST_COMPUTE,
    ),
    "after": (
        Part.DEVICE_TO_HOST,
        Part.FETCH,
        Part.CALLBACKS,
        Part.SUMMARIES,
        Part.CHECKPOINTS,
    ),
    "other": (Part.COMPILE, Part.SYNC_WAIT, Part.RECORDING, Part.IDLE),
}

DEVICE_COMPUTE: tuple[Part, ...] = (
    Part.DEVICE_COMPUTE_16BIT,
    Part.DEVICE_COMPUTE_32BIT,
    Part.DEVICE_COMPUTE_OTHER,
)
# Parts of moments at which a device does something.
ON_DEVICE: tuple[Part, ...] = (
    *DEVICE_COMPUTE,
    Part.COLLECTIVES,
    Part.DEVICE_TO_DEVICE,
    Part.DEVICE_TO_HOST,
    Part.HOST_TO_DEVICE,
)
# With an accelerator the host's own work matters only while no device works. Waiting for input
# outranks it: what runs meanwhile is mostly scheduling.
WITH_ACCELERATOR: tuple[Part, ...] = (
    *ON_DEVICE,
    Part.COMPILE,
    Part.INPUT_WAIT,
    Part.HOST_PREPROCESS,
    Part.CHECKPOINTS,
    Part.SUMMARIES,
    Part.HOST_COMPUTE,
    Part.SYNC_WAIT,
    Part.KERNEL_LAUNCH,
    Part.FEED,
    Part.FETCH,
)
# Without one, the host is the accelerator: while it computes, the step is not waiting.
WITHOUT_ACCELERATOR: tuple[Part, ...] = (
    Part.COMPILE,
    Part.CHECKPOINTS,
    Part.SUMMARIES,
    Part.HOST_COMPUTE,
    Part.HOST_PREPROCESS,
    Part.INPUT_WAIT,
    Part.COLLECTIVES,
    Part.SYNC_WAIT,
    Part.FEED,
    Part.FETCH,
)


ORDER: tuple[Part, ...] = tuple(Part)
_NUMBER = {part: number for number, part in enumerate(ORDER)}

# How ops begin that take the next element of a tf.data pipeline.
GET_NEXT = ("IteratorGetNext", "MultiDeviceIteratorGetNext")
_INPUT = (
    *GET_NEXT,
    "QueueDequeue",
    "FIFOQueueDequeue",
    "RandomShuffleQueueDequeue",
    "Unstage",
    "ReaderRead",
    "InfeedDequeue",
)
# Ops that wait for another device, process or thread.
_WAITS = frozenset({"_Recv", "_HostRecv", "_Send", "_HostSend", "RecvTensor", "Barrier"})
# Queues of tokens, not of data: SyncReplicasOptimizer takes a token when all gradients of a step
# are in, and a parameter server waits for one from each worker at its end.
_TOKENS = re.compile(r"(?<![^/])(sync_token_q|dummy_queue|done_queue|shutdown_queue|sync_queue)")
# PyTorch's calls of collectives, which a library then runs.
_CALLS_COLLECTIVE = "c10d::"
_PYTHON = frozenset({"PyFunc", "EagerPyFunc", "PyFuncStateless", "NumpyFunction"})
_SUMMARY = re.compile(r".*Summary(V2)?\Z|(Create|Flush|Close)SummaryWriter|SummaryWriter")
_CHECKPOINT = re.compile(
    r"Save(V2|Slices)?\Z|MergeV2Checkpoints|ShardedFilename|Restore(V2|Slice)?\Z"
)
# Widths as kernel names spell them. 16-bit products summed in 32 bits have both.
_BITS_16 = re.compile(
    r"fp16|f16(?!\d)|bf16|half|bfloat|h884|h1688|h16816|hgemm|hmma|s884|e4m3|e5m2|fp8",
    re.IGNORECASE,
)
_BITS_32 = re.compile(r"fp32|f32|float|sgemm|s1688|scudnn|ffma", re.IGNORECASE)


# Longer than any kernel's name with its templates; damaged names may have a megabyte.
_MOST_CHARACTERS = 10_000


class PartNames(NamedTuple):
    """What the interned strings of rows mean as host ops and as kernels, by position.

    Entries for strings that no row uses in that way are meaningless.
    """

    host: Int8s
    is_collective: Flags
    kernel: Int8s
    is_token: Flags
    is_of_loader: Flags


def part_names(rows: Executions) -> PartNames:
    """Return what the strings of rows mean; each string is classified once."""
    texts = rows.strings.values
    host, kernel = np.zeros(len(texts), dtype=np.int8), np.zeros(len(texts), dtype=np.int8)
    is_collective = np.zeros(len(texts), dtype=np.bool_)
    for index in used(rows.op_type):
        host[index] = _NUMBER[_host_part(texts[index])]
        is_collective[index] = names_collective(texts[index])
    for index in used(rows.detail):
        is_collective[index] = names_collective(texts[index])
    is_token = np.zeros(len(texts), dtype=np.bool_)
    for index in used(rows.name[np.isin(host, _NUMBER[Part.INPUT_WAIT])[rows.op_type]]):
        is_token[index] = takes_token(texts[index])
    for index in used(_kernel_names(rows)[rows.place == Place.ACCELERATOR]):
        kernel[index] = _NUMBER[_precision(texts[index])]
    loader = np.zeros(len(texts), dtype=np.bool_)
    for index in used(rows.name) if is_pytorch(rows) else ():
        loader[index] = is_of_loader(texts[index])
    return PartNames(host, is_collective, kernel, is_token, loader)


def takes_token(name: str) -> bool:
    """Return whether an op of this name waits for a token in a queue, not for input."""
    return _TOKENS.search(name) is not None


def parts_of(rows: Executions, known: PartNames) -> Int8s:
    """Return the part of each row, as a position in ORDER."""
    part: Int8s = known.host[rows.op_type]
    part[known.is_token[rows.name] & is_part(part, Part.INPUT_WAIT)] = _NUMBER[Part.SYNC_WAIT]
    part[known.is_of_loader[rows.name]] = _NUMBER[Part.HOST_PREPROCESS]
    part[_schedules_kernels(rows)] = _NUMBER[Part.KERNEL_LAUNCH]
    on_device = rows.place == Place.ACCELERATOR
    part[on_device] = known.kernel[_kernel_names(rows)[on_device]]
    for place, copy in (
        (Place.HOST_TO_DEVICE, Part.HOST_TO_DEVICE),
        (Place.DEVICE_TO_HOST, Part.DEVICE_TO_HOST),
        (Place.DEVICE_TO_DEVICE, Part.DEVICE_TO_DEVICE),
    ):
        part[rows.place == place] = _NUMBER[copy]
    collective = known.is_collective[rows.op_type] | known.is_collective[rows.detail]
    part[collective & ~_copies_with_host(rows)] = _NUMBER[Part.COLLECTIVES]
    return part


def is_part(part: Int8s, wanted: Part) -> Flags:
    """Return which rows are of a part."""
    chosen: Flags = part == _NUMBER[wanted]
    return chosen


def _schedules_kernels(rows: Executions) -> Flags:
    """Return which host rows only launch kernels of their op on a device, in the same capture."""
    on_device = rows.place != Place.HOST
    names = used(rows.name[on_device])
    if not names:
        return np.zeros(len(rows), dtype=np.bool_)
    number = np.full(len(rows.strings.values), -1)
    number[names] = np.arange(len(names))
    number = number[rows.name]
    ran = np.zeros((int(rows.capture.max()) + 1, len(names)), dtype=np.bool_)
    ran[rows.capture[on_device], number[on_device]] = True
    chosen: Flags = ~on_device & (number >= 0) & ran[rows.capture, number]
    return chosen


def _kernel_names(rows: Executions) -> Int32s:
    """Return the names of kernels; a trace without details may carry them as the op's name."""
    named: Int32s = np.where(rows.detail > 0, rows.detail, rows.name)
    return named


def _copies_with_host(rows: Executions) -> Flags:
    chosen: Flags = np.isin(rows.place, (Place.HOST_TO_DEVICE, Place.DEVICE_TO_HOST))
    return chosen


def _host_part(text: str) -> Part:
    tests: tuple[tuple[Part, Callable[[str], object]], ...] = (
        (Part.INPUT_WAIT, lambda name: name.startswith(_INPUT)),
        (Part.SYNC_WAIT, _WAITS.__contains__),
        (Part.COLLECTIVES, lambda name: name.startswith(_CALLS_COLLECTIVE)),
        (Part.HOST_PREPROCESS, _PYTHON.__contains__),
        (Part.SUMMARIES, _SUMMARY.match),
        (Part.CHECKPOINTS, _CHECKPOINT.match),
    )
    return next((part for part, is_it in tests if is_it(text)), Part.HOST_COMPUTE)


def _precision(text: str) -> Part:
    text = text[:_MOST_CHARACTERS]
    if _BITS_16.search(text):
        return Part.DEVICE_COMPUTE_16BIT
    if _BITS_32.search(text):
        return Part.DEVICE_COMPUTE_32BIT
    return Part.DEVICE_COMPUTE_OTHER
