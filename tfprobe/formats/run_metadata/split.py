"""Split captures into devices and nodes, several captures at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from tfprobe.errors import UnreadableInput
from tfprobe.formats.run_metadata.nodes import NodeReader, Nodes
from tfprobe.formats.schema import parse
from tfprobe.formats.wire import Buffer, Extents, OtherForm
from tfprobe.profile.tables import Int64s


@dataclass(frozen=True, slots=True)
class CaptureDevice:
    """A device of a capture; `rows` says which of the nodes belong to it."""

    name: str
    threads: Mapping[int, str]
    rows: slice


@dataclass(frozen=True, slots=True)
class SplitCaptures:
    """A capture split into devices; `nodes` may include those of other captures."""

    devices: tuple[CaptureDevice, ...]
    nodes: Nodes


def take_apart(
    reader: NodeReader, contents: Sequence[bytes]
) -> Sequence[SplitCaptures | UnreadableInput]:
    """Return split captures, or the error for one that is no RunMetadata or contains no step."""
    outlines = [_outline_or_error(content) for content in contents]
    good = [
        (content, outline)
        for content, outline in zip(contents, outlines, strict=True)
        if not isinstance(outline, UnreadableInput)
    ]
    try:
        found = iter(_nodes_of(reader, good))
    except OtherForm:
        if len(contents) > 1:
            return [each for content in contents for each in take_apart(reader, [content])]
        return [_of_other_form(reader, contents[0])]
    return [
        outline if isinstance(outline, UnreadableInput) else next(found) for outline in outlines
    ]


def _outline_or_error(content: bytes) -> Any:
    try:
        return _outline(content)
    except UnreadableInput as exc:
        return exc


def _outline(content: bytes) -> Any:
    message = parse(content, "tfprobe.step_stats.WrittenRunMetadata")
    if not message.step_stats.dev_stats:
        raise UnreadableInput("a RunMetadata without step statistics")
    return message.step_stats.dev_stats


def _nodes_of(reader: NodeReader, captures: Sequence[tuple[bytes, Any]]) -> list[SplitCaptures]:
    """Return captures with their nodes. Any: WrittenDeviceStepStats of each.

    Raises OtherForm if a node is not in the usual form.
    """
    buffer = Buffer(content for content, _ in captures)
    ends = accumulate(len(content) for content, _ in captures)
    lengths = [[_lengths(device) for device in devices] for _, devices in captures]
    read = reader.read(buffer, places(buffer, zip(ends, lengths, strict=True)))
    found, first = [], 0
    for (_, devices), by_device in zip(captures, lengths, strict=True):
        known = []
        for device, at_device in zip(devices, by_device, strict=True):
            rows = slice(first, first := first + len(at_device))
            known.append(CaptureDevice(device.device, dict(device.thread_names), rows))
        found.append(SplitCaptures(tuple(known), read))
    return found


def _lengths(device: Any) -> Int64s:
    """Return the length in bytes of each node of a device; Any: a WrittenDeviceStepStats."""
    nodes = device.node_stats
    return np.fromiter(map(len, nodes), dtype=np.int64, count=len(nodes))


def _of_other_form(reader: NodeReader, content: bytes) -> SplitCaptures | UnreadableInput:
    """Split a capture that is damaged, or whose writer used another field order."""
    try:
        message = parse(content, "tfprobe.step_stats.RunMetadata")
        message.DiscardUnknownFields()
        usual = message.SerializeToString()
        (found,) = _nodes_of(reader, [(usual, _outline(usual))])
    except UnreadableInput as exc:
        return exc
    except OtherForm:
        return UnreadableInput("a RunMetadata in a form that no writer of protobuf has")
    return found


# Tags of RunMetadata.step_stats, StepStats.dev_stats and DeviceStepStats.device, and of its nodes.
_FIRST = 1 << 3 | 2
_NODE = 2 << 3 | 2


def places(buffer: Buffer, captures: Iterable[tuple[int, Sequence[Int64s]]]) -> Extents:
    """Return the extents of nodes. For each capture, `captures` has its end in the buffer, where
    the next one begins, and the lengths of the nodes of each of its devices.

    Raises OtherForm if a capture is not in the form that protobuf writers produce.
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
    written, after = buffer.varints(heads + 1)
    is_usual = (
        (buffer.bytes[heads] == _NODE) & (written.view(np.int64) == length) & (after == start)
    )
    if not is_usual.all():
        raise OtherForm
    return Extents(start, start + length)


def _in_capture(content: bytes, at: int, end: int, lengths: Sequence[Int64s]) -> list[Int64s]:
    """Return the starts of nodes, assuming that nothing lies between those of a device."""
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
    """Return the start and end of the message or text whose tag is at this position."""
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
    """Return the number of bytes that encode such lengths."""
    width = np.ones(len(length), dtype=np.int64)
    for bits in (7, 14, 21, 28):
        width += length >= 1 << bits
    return width
