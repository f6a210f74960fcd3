"""Find where the nodes of captures lie, by their lengths as protobuf tells them. Reads no node."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from tfprobe.formats.wire import Buffer, Extents, OtherForm
from tfprobe.profile.tables import Int64s

# Tags of RunMetadata.step_stats, StepStats.dev_stats and DeviceStepStats.device, and of its nodes.
_FIRST = 1 << 3 | 2
_NODE = 2 << 3 | 2


def places(buffer: Buffer, captures: Iterable[tuple[int, Sequence[Int64s]]]) -> Extents:
    """Return where nodes are: for each capture its end in the buffer, where the next begins, and
    how long the nodes of each of its devices are.

    Raises OtherForm where a capture is not as writers of protobuf write it.
    """
    starts: list[Int64s] = []
    lengths: list[Int64s] = []
    begin = 0
    for end, by_device in captures:
        starts += _in_capture(buffer.content, begin, end, by_device)
        lengths += by_device
        begin = end
    if not starts:
        none = np.empty(0, dtype=np.int64)
        return Extents(none, none)
    start, length = np.concatenate(starts), np.concatenate(lengths)
    heads = start - 1 - _widths(length)
    told, after = buffer.varints(heads + 1)
    is_usual = (buffer.bytes[heads] == _NODE) & (told.view(np.int64) == length) & (after == start)
    if not is_usual.all():
        raise OtherForm
    return Extents(start, start + length)


def _in_capture(content: bytes, at: int, end: int, lengths: Sequence[Int64s]) -> list[Int64s]:
    """Return from where on nodes are if nothing lies between those of a device."""
    found = []
    at, end = _inside(content, at, end)
    for length in lengths:
        at, end_device = _inside(content, at, end)
        if at < end_device and content[at] == _FIRST:
            _, at = _inside(content, at, end_device)
        ends = at + np.cumsum(1 + _widths(length) + length)
        if len(ends) and ends[-1] > end_device:
            raise OtherForm
        found.append(ends - length)
        at = end_device
    if at != end:
        raise OtherForm
    return found


def _inside(content: bytes, at: int, end: int) -> tuple[int, int]:
    """Return where the message or text begins and ends whose tag is here."""
    if at >= end or content[at] != _FIRST:
        raise OtherForm
    length, shift, more = 0, 0, True
    while more:
        at += 1
        length |= (content[at] & 0x7F) << shift
        shift += 7
        more = content[at] >= 0x80
    if at + 1 + length > end:
        raise OtherForm
    return at + 1, at + 1 + length


def _widths(length: Int64s) -> Int64s:
    """Return how many bytes tell such lengths."""
    width = np.ones(len(length), dtype=np.int64)
    for bits in (7, 14, 21, 28):
        width += length >= 1 << bits
    return width
