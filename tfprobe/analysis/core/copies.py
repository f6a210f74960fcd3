"""Tell of each copy and memset what its record says: direction, memory, size, who waited for it.

Texts are those of TensorFlow's tracers ("kind_src:pageable kind_dst:device size:1024 dest:0
async:1", "MEMCPYHtoD") and of Kineto's ("Memcpy HtoD (Pageable -> Device)").
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
    """What a row moves, and where to."""

    HOST_TO_DEVICE = 0
    DEVICE_TO_HOST = 1
    DEVICE_TO_DEVICE = 2
    MEMSET = 3


class CopyMemory(IntEnum):
    """The host's memory at one end of a copy. From pageable memory the driver copies it once more,
    to a buffer of its own, while the caller waits.
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
    """The rows of executions that are copies or memsets, and what each says; same length all.

    `row` are positions in the executions. `bytes` is 0 where a row does not tell its size.
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
# The end of the copy that is the host, by direction: in TensorFlow's words and in Kineto's.
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
# "aync" is how TensorFlow's tracer of 1.14 to 2.3 writes it, and its absence the contrary.
_ASYNC = re.compile(r"\basync: ?(?P<told>\d|true|false)|bytes:\d+(?P<flag> a?s?ync)?")
_DEVICE = re.compile(r".*?gpu:\d+")


def copies(rows: Executions, spans: Spans) -> Copies:
    """Return the copies and memsets among the rows, in their order."""
    is_memset = _told(rows, rows.op_type, _is_memset) | _told(rows, rows.detail, _is_memset)
    on_device = rows.place != Place.HOST
    at = np.flatnonzero((on_device & is_memset) | (on_device & (rows.place != Place.ACCELERATOR)))
    found = rows.place[at]
    move = np.full(len(at), Move.MEMSET, dtype=np.int8)
    for place, each in _MOVES.items():
        move[(found == place) & ~is_memset[at]] = each
    detail, op_type = rows.detail[at], rows.op_type[at]
    size = rows.bytes[at]
    return Copies(
        row=at,
        move=move,
        memory=_memory(rows, move, detail, op_type),
        waits=_waits(rows, at, spans),
        bytes=np.where(size > 0, size, _told(rows, detail, _size)),
    )


def accelerators(rows: Executions) -> Int32s:
    """Return for each row a number of its accelerator, the same for its streams and its copies.

    Numbers are positions of a device's text in the rows' strings; -1 where a row has no GPU.
    """
    first: dict[str, int] = {}
    numbers = np.full(len(rows.strings.values), -1, dtype=np.int32)
    for position in np.unique(rows.device).tolist():
        device = device_of(rows.strings[position])
        if device:
            numbers[position] = first.setdefault(device, position)
    return numbers[rows.device]


def device_of(text: str) -> str:
    """Return the GPU that a device's text names, "" for none.

    "/gpu:0/stream:all" and "/gpu:0/memcpy" are one, and so are "/device:GPU:0" and "/gpu:0".
    """
    found = _DEVICE.match(text.lower().replace("device:", ""))
    return found[0] if found else ""


def _memory(rows: Executions, move: Int8s, detail: Int32s, op_type: Int32s) -> Int8s:
    memory = np.zeros(len(move), dtype=np.int8)
    for each, end in _ENDS.items():
        chosen = move == each
        for column in (op_type, detail):

            def of_text(text: str, end: re.Pattern[str] = end) -> int:
                found = end.search(text)
                word = (found[1] or found[2]) if found else ""
                return int(_MEMORIES.get((word or "").lower(), CopyMemory.UNKNOWN))

            told = _told(rows, column[chosen], of_text)
            memory[chosen] = np.where(told != CopyMemory.UNKNOWN, told, memory[chosen])
    return memory


def _waits(rows: Executions, at: Int64s, spans: Spans) -> Int8s:
    """Return who waits: as the copy's record says, else as the call's name says."""
    waits = _told(rows, rows.detail[at], _waits_of_detail).astype(np.int8)
    calls = spans.only(spans.kind == SpanKind.COPY_CALL)
    unknown = np.flatnonzero((waits == CopyWaits.UNKNOWN) & (rows.correlation[at] > 0))
    if not len(calls) or not len(unknown):
        return waits
    call = matching(
        rows.capture[at[unknown]], rows.correlation[at[unknown]], calls.capture, calls.correlation
    )
    is_async = np.array([_waits_of_call(text) for text in calls.strings.values], dtype=np.int8)
    found = call >= 0
    waits[unknown[found]] = is_async[calls.name[call[found]]]
    return waits


def matching(capture: Int32s, number: Int64s, captures: Int32s, numbers: Int64s) -> Int64s:
    """Return for each (capture, number) the last position that has both, -1 where there is none."""
    if not len(numbers):
        return np.full(len(number), -1, dtype=np.int64)
    # Numbers of drivers may fill 64 bits: by their rank, a capture fits in front of them.
    ranks = np.unique(np.concatenate((numbers, number)), return_inverse=True)[1].reshape(-1)
    count = int(ranks.max()) + 1
    keys = captures.astype(np.int64) * count + ranks[: len(numbers)]
    asked = capture.astype(np.int64) * count + ranks[len(numbers) :]
    order = np.argsort(keys, kind="stable")
    at = np.maximum(np.searchsorted(keys[order], asked, side="right") - 1, 0)
    found: Int64s = np.where(keys[order][at] == asked, order[at], -1)
    return found


def _told(
    rows: Executions, column: Int32s, of_text: Callable[[str], Any]
) -> npt.NDArray[Any]:  # Any: whatever of_text returns
    """Return what a text says, for each row of a column: each text is looked at once."""
    positions, inverse = np.unique(column, return_inverse=True)
    values = np.array([of_text(rows.strings[position]) for position in positions.tolist()])
    if not len(values):
        return np.array([of_text("")])[:0]
    return values[inverse.reshape(-1)]


def _is_memset(text: str) -> bool:
    return _MEMSET.search(text) is not None


def _size(text: str) -> int:
    found = _SIZE.search(text)
    return int(found[1]) if found else 0


def _waits_of_detail(text: str) -> int:
    found = _ASYNC.search(text)
    if found is None:
        return CopyWaits.UNKNOWN
    is_async = found["told"] not in ("0", "false") if found["told"] else bool(found["flag"])
    return CopyWaits.ASYNCHRONOUS if is_async else CopyWaits.SYNCHRONOUS


def _waits_of_call(name: str) -> int:
    return CopyWaits.ASYNCHRONOUS if "async" in name.lower() else CopyWaits.SYNCHRONOUS
