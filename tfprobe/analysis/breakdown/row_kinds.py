"""Say by names what a row is: which op moves input, waits or saves; how wide a kernel computes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tfprobe.analysis.breakdown.step_parts import Part
from tfprobe.analysis.core.collective_ops import is_named_so
from tfprobe.profile.capture_tables import Executions, Place
from tfprobe.profile.tables import Int32s, used

Flags = npt.NDArray[np.bool_]
Int8s = npt.NDArray[np.int8]

ORDER: tuple[Part, ...] = tuple(Part)
_NUMBER = {part: number for number, part in enumerate(ORDER)}

_INPUT = (
    "IteratorGetNext",
    "QueueDequeue",
    "FIFOQueueDequeue",
    "RandomShuffleQueueDequeue",
    "Unstage",
    "ReaderRead",
    "InfeedDequeue",
    "MultiDeviceIteratorGetNext",
)
# Ops whose time is waiting for another device, process or thread.
_WAITS = frozenset({"_Recv", "_HostRecv", "_Send", "_HostSend", "RecvTensor", "Barrier"})
# Queues of tokens, not of data: SyncReplicasOptimizer takes one when all gradients of a step are
# in, and a parameter server waits for one of each worker's end.
_TOKENS = re.compile(r"(?<![^/])(sync_token_q|dummy_queue|done_queue|shutdown_queue|sync_queue)")
_PYTHON = frozenset({"PyFunc", "EagerPyFunc", "PyFuncStateless", "NumpyFunction"})
_SUMMARY = re.compile(r".*Summary(V2)?\Z|(Create|Flush|Close)SummaryWriter|SummaryWriter")
_CHECKPOINT = re.compile(
    r"Save(V2|Slices)?\Z|MergeV2Checkpoints|ShardedFilename|Restore(V2|Slice)?\Z"
)
# Widths as kernels spell them. Products of 16-bit numbers that add up in 32 bits have both.
_BITS_16 = re.compile(
    r"fp16|f16(?!\d)|bf16|half|bfloat|h884|h1688|h16816|hgemm|hmma|s884|e4m3|e5m2|fp8",
    re.IGNORECASE,
)
_BITS_32 = re.compile(r"fp32|f32|float|sgemm|s1688|scudnn|ffma", re.IGNORECASE)


# Longer than the name of any kernel, templates and all; names may be a megabyte long.
_MOST_CHARACTERS = 10_000


class Names(NamedTuple):
    """What interned strings mean: as the op of a host row, as a kernel; all by position.

    Those that no row uses so have any meaning.
    """

    host: Int8s
    is_collective: Flags
    kernel: Int8s
    is_token: Flags


def names(rows: Executions) -> Names:
    """Return what the strings of rows mean, each that they use looked at once."""
    texts = rows.strings.values
    host, kernel = np.zeros(len(texts), dtype=np.int8), np.zeros(len(texts), dtype=np.int8)
    is_collective = np.zeros(len(texts), dtype=np.bool_)
    for at in used(rows.op_type):
        host[at] = _NUMBER[_host_part(texts[at])]
        is_collective[at] = is_named_so(texts[at])
    for at in used(rows.detail):
        is_collective[at] = is_named_so(texts[at])
    is_token = np.zeros(len(texts), dtype=np.bool_)
    for at in used(rows.name[np.isin(host, _NUMBER[Part.INPUT_WAIT])[rows.op_type]]):
        is_token[at] = takes_token(texts[at])
    for at in used(_kernel_names(rows)[rows.place == Place.ACCELERATOR]):
        kernel[at] = _NUMBER[_precision(texts[at])]
    return Names(host, is_collective, kernel, is_token)


def takes_token(name: str) -> bool:
    """Say whether an op of this name waits for others by a queue of tokens, not for input."""
    return _TOKENS.search(name) is not None


def parts_of(rows: Executions, known: Names) -> Int8s:
    """Return the part of each row, as a position in ORDER."""
    part: Int8s = known.host[rows.op_type]
    part[known.is_token[rows.name] & is_part(part, Part.INPUT_WAIT)] = _NUMBER[Part.SYNC_WAIT]
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
    """Say which rows are of a part."""
    chosen: Flags = part == _NUMBER[wanted]
    return chosen


def _schedules_kernels(rows: Executions) -> Flags:
    """Say which host rows only put kernels of their op on a device, in the same capture."""
    on_device = rows.place != Place.HOST
    there = used(rows.name[on_device])
    if not there:
        return np.zeros(len(rows), dtype=np.bool_)
    number = np.full(len(rows.strings.values), -1)
    number[there] = np.arange(len(there))
    number = number[rows.name]
    ran = np.zeros((int(rows.capture.max()) + 1, len(there)), dtype=np.bool_)
    ran[rows.capture[on_device], number[on_device]] = True
    chosen: Flags = ~on_device & (number >= 0) & ran[rows.capture, number]
    return chosen


def _kernel_names(rows: Executions) -> Int32s:
    """Return the names of kernels; a trace without them may still carry them as the op's name."""
    named: Int32s = np.where(rows.detail > 0, rows.detail, rows.name)
    return named


def _copies_with_host(rows: Executions) -> Flags:
    chosen: Flags = np.isin(rows.place, (Place.HOST_TO_DEVICE, Place.DEVICE_TO_HOST))
    return chosen


def _host_part(text: str) -> Part:
    tests: tuple[tuple[Part, Callable[[str], object]], ...] = (
        (Part.INPUT_WAIT, lambda name: name.startswith(_INPUT)),
        (Part.SYNC_WAIT, _WAITS.__contains__),
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
