"""Parse the records of copies and memsets: direction, memory, size, and whether the caller waited.

Texts are those of TensorFlow's tracers ("kind_src:pageable kind_dst:device size:1024 dest:0
async:1", "MEMCPYHtoD") and of Kineto ("Memcpy HtoD (Pageable -> Device)").
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from tfprobe.profile.capture_tables import Executions, Place, SpanKind, Spans
from tfprobe.profile.tables import Int8s, Int32s, Int64s


class Move(IntEnum):
    """The direction of a copy, or a memset."""

    HOST_TO_DEVICE = 0
    DEVICE_TO_HOST = 1
    DEVICE_TO_DEVICE = 2
    MEMSET = 3


class CopyMemory(IntEnum):
    """The host's memory at one end of a copy.

    Pageable memory is copied once more, to a buffer of the driver, while the caller waits.
    """

    UNKNOWN = 0
    PAGEABLE = 1
    PINNED = 2
    MANAGED = 3


class CopyWaits(IntEnum):
    """Whether the call that started a copy returned only when it was done."""

    UNKNOWN = 0
    SYNCHRONOUS = 1
    ASYNCHRONOUS = 2


@dataclass(frozen=True, slots=True)
class Copies:
    """The copies and memsets among executions, as columns of the same length.

    `row` are positions in the executions. `bytes` is 0 where the size is not recorded.
    """

    row: Int64s
    move: Int8s
    memory: Int8s
    waits: Int8s
    bytes: Int64s


_MOVES = {
    Place.HOST_TO_DEVICE: Move.HOST_TO_DEVICE,
    Place.DEVICE_TO_HOST: Move.DEVICE_TO_HOST,
    Place.DEVICE_TO_DEVICE: Move.DEVICE_TO_DEVICE,
}
_MEMSET = re.compile(r"memset", re.IGNORECASE)
# The memory at the host's end of a copy, by direction, as TensorFlow and Kineto write it.
_ENDS = {
    Move.HOST_TO_DEVICE: re.compile(r"kind_src:(\w+)|\((\w+) ->", re.IGNORECASE),
    Move.DEVICE_TO_HOST: re.compile(r"kind_dst:(\w+)|-> (\w+)\)", re.IGNORECASE),
}
_MEMORIES = {
    "pageable": CopyMemory.PAGEABLE,
    "pinned": CopyMemory.PINNED,
    "managed": CopyMemory.MANAGED,
    "managed_static": CopyMemory.MANAGED,
}
_SIZE = re.compile(r"(?:size|num_bytes|bytes): ?(\d+)")
# TensorFlow 1.14 to 2.3 write "aync" for asynchronous copies, and nothing for others.
_ASYNC = re.compile(r"\basync: ?(?P<value>\d|true|false)|bytes:\d+(?P<flag> a?s?ync)?")
_DEVICE = re.compile(r".*?gpu:\d+")


def copies(rows: Executions, spans: Spans) -> Copies:
    """Return the copies and memsets among the rows, in their order."""
    is_memset = _parsed(rows, rows.op_type, _is_memset) | _parsed(rows, rows.detail, _is_memset)
    on_device = rows.place != Place.HOST
    at = np.flatnonzero((on_device & is_memset) | (on_device & (rows.place != Place.ACCELERATOR)))
    move = np.full(len(at), Move.MEMSET, dtype=np.int8)
    for place, direction in _MOVES.items():
        move[(rows.place[at] == place) & ~is_memset[at]] = direction
    detail, op_type = rows.detail[at], rows.op_type[at]
    size = rows.bytes[at]
    return Copies(
        row=at,
        move=move,
        memory=_memory(rows, move, detail, op_type),
        waits=_waits(rows, at, spans),
        bytes=np.where(size > 0, size, _parsed(rows, detail, _size)),
    )


def accelerators(rows: Executions) -> Int32s:
    """Return for each row a number of its accelerator, the same for all its streams and copies.

    Numbers are positions of a device's name in the rows' strings; -1 where a row has no GPU.
    """
    first: dict[str, int] = {}
    numbers = np.full(len(rows.strings.values), -1, dtype=np.int32)
    for position in np.unique(rows.device).tolist():
        device = device_of(rows.strings[position])
        if device:
            numbers[position] = first.setdefault(device, position)
    return numbers[rows.device]


def device_of(text: str) -> str:
    """Return the GPU in a device's name, "" for none.

    "/gpu:0/stream:all" and "/gpu:0/memcpy" are the same, and so are "/device:GPU:0" and "/gpu:0".
    """
    match = _DEVICE.match(text.lower().replace("device:", ""))
    return match[0] if match else ""


def _memory(rows: Executions, move: Int8s, detail: Int32s, op_type: Int32s) -> Int8s:
    memory = np.zeros(len(move), dtype=np.int8)
    for direction, end in _ENDS.items():
        chosen = move == direction
        for column in (op_type, detail):

            def of_text(text: str, end: re.Pattern[str] = end) -> int:
                match = end.search(text)
                word = (match[1] or match[2]) if match else ""
                return int(_MEMORIES.get((word or "").lower(), CopyMemory.UNKNOWN))

            parsed = _parsed(rows, column[chosen], of_text)
            memory[chosen] = np.where(parsed != CopyMemory.UNKNOWN, parsed, memory[chosen])
    return memory


def _waits(rows: Executions, at: Int64s, spans: Spans) -> Int8s:
    """Return whether the caller waited: from the copy's record, else from the call's name."""
    waits = _parsed(rows, rows.detail[at], _waits_of_detail).astype(np.int8)
    calls = spans.only(spans.kind == SpanKind.COPY_CALL)
    unknown = np.flatnonzero((waits == CopyWaits.UNKNOWN) & (rows.correlation[at] > 0))
    if not len(calls) or not len(unknown):
        return waits
    call = matching(
        rows.capture[at[unknown]], rows.correlation[at[unknown]], calls.capture, calls.correlation
    )
    is_async = np.array([_waits_of_call(text) for text in calls.strings.values], dtype=np.int8)
    known = call >= 0
    waits[unknown[known]] = is_async[calls.name[call[known]]]
    return waits


def matching(capture: Int32s, number: Int64s, captures: Int32s, numbers: Int64s) -> Int64s:
    """Return for each (capture, number) the last position with the same pair, -1 for none."""
    if not len(numbers):
        return np.full(len(number), -1, dtype=np.int64)
    # Drivers' numbers may fill 64 bits: their ranks leave room for the capture.
    ranks = np.unique(np.concatenate((numbers, number)), return_inverse=True)[1].reshape(-1)
    count = int(ranks.max()) + 1
    keys = captures.astype(np.int64) * count + ranks[: len(numbers)]
    wanted = capture.astype(np.int64) * count + ranks[len(numbers) :]
    order = np.argsort(keys, kind="stable")
    at = np.maximum(np.searchsorted(keys[order], wanted, side="right") - 1, 0)
    position: Int64s = np.where(keys[order][at] == wanted, order[at], -1)
    return position


def _parsed(
    rows: Executions, column: Int32s, of_text: Callable[[str], Any]
) -> npt.NDArray[Any]:  # Any: whatever of_text returns
    """Return the parsed text of each row of a column; each text is parsed once."""
    positions, inverse = np.unique(column, return_inverse=True)
    values = np.array([of_text(rows.strings[position]) for position in positions.tolist()])
    if not len(values):
        return np.array([of_text("")])[:0]
    return values[inverse.reshape(-1)]


def _is_memset(text: str) -> bool:
    return _MEMSET.search(text) is not None


def _size(text: str) -> int:
    match = _SIZE.search(text)
    return int(match[1]) if match else 0


def _waits_of_detail(text: str) -> int:
    match = _ASYNC.search(text)
    if match is None:
        return CopyWaits.UNKNOWN
    is_async = match["value"] not in ("0", "false") if match["value"] else bool(match["flag"])
    return CopyWaits.ASYNCHRONOUS if is_async else CopyWaits.SYNCHRONOUS


def _waits_of_call(name: str) -> int:
    return CopyWaits.ASYNCHRONOUS if "async" in name.lower() else CopyWaits.SYNCHRONOUS
