"""Events read into columns are those that the protobuf library reads, however they were written."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.captures import TraceEvent, xspace
from tests.support.golden import golden
from tfprobe.errors import UnreadableInput
from tfprobe.formats.schema import parse
from tfprobe.formats.xspace import holds_planes
from tfprobe.formats.xspace.events import read_planes
from tfprobe.formats.xspace.plane import stat_values

RECORDINGS = (
    "frameworks/jax_cpu_window_one_step.xplane.pb",
    "frameworks/jax_cpu_flax_mlp_3steps.xplane.pb",
    "xprof/tpu_inference_2.xplane.pb",
)


def by_columns(content: bytes) -> list[Any]:
    """Return all that an XSpace says of events, as columns tell it."""
    return [
        (plane.name, plane.message.SerializeToString(deterministic=True), *map(_by_columns, lines))
        for plane in read_planes(content)
        for lines in [plane.lines]
    ]


def _by_columns(line: Any) -> Any:
    every, timestamp_ns = line.every(), line.timestamp_ns
    line.timestamp_ns = 0
    times = (column.tolist() for column in line.times_ns(every))
    events = zip(line.ids.tolist(), *times, map(repr, line.stats(every)), strict=True)
    return line.id, line.name, line.display_name, timestamp_ns, list(events)


def by_messages(content: bytes) -> list[Any]:
    """Return the same as the protobuf library decodes it."""
    space = parse(content, "tfprobe.xplane.XSpace")
    space.DiscardUnknownFields()
    told = []
    for plane in space.planes:
        alone = type(plane)()
        alone.CopyFrom(plane)
        del alone.lines[:]
        # Before anything is looked up: that adds what a map lacks.
        written = alone.SerializeToString(deterministic=True)
        told.append((plane.name, written, *(_by_messages(plane, line) for line in plane.lines)))
    return told


def _by_messages(plane: Any, line: Any) -> Any:
    events = [
        (
            event.metadata_id,
            event.offset_ps // 1000,
            event.duration_ps // 1000,
            repr(stat_values(plane, event.stats)),
        )
        for event in line.events
    ]
    return line.id, line.name, line.display_name, line.timestamp_ns, events


def made_up(rng: random.Random) -> Any:
    """Return an XSpace with every kind of stat and every kind of number."""
    space = parse(b"", "tfprobe.xplane.XSpace")
    for name in rng.sample(["/host:CPU", "/device:GPU:0", "", "Task Environment"], 3):
        plane = space.planes.add(name=name, id=_number(rng))
        for at in range(rng.randrange(8)):
            plane.stat_metadata[at].name = rng.choice(["", "bytes", "hlo_op", f"stat {at}"])
            plane.event_metadata[at * 1000].name = f"événement {at}"
        for at in range(rng.randrange(4)):
            line = plane.lines.add(id=at, name=f"thread {at}", timestamp_ns=rng.randrange(2**60))
            line.display_name = rng.choice(["", "né"])
            for _ in range(rng.choice((0, 1, 70))):
                _add_event(line, rng)
    return space


def _add_event(line: Any, rng: random.Random) -> None:
    event = line.events.add(metadata_id=rng.choice((0, 1000, 5000, 2**40)))
    if rng.random() < 0.9:
        event.offset_ps = abs(_number(rng))
    else:
        event.num_occurrences = _number(rng)
    event.duration_ps = abs(_number(rng))
    for _ in range(rng.choice((0, 0, 1, 3, 90))):
        stat = event.stats.add(metadata_id=rng.randrange(10))
        kind = rng.randrange(7)
        if kind == 1:
            stat.double_value = rng.choice((0.0, -1.5, 1e300, float("inf")))
        elif kind == 2:
            stat.uint64_value = abs(_number(rng)) + rng.choice((0, 2**63))
        elif kind == 3:
            stat.int64_value = _number(rng)
        elif kind == 4:
            stat.str_value = rng.choice(("", "a", "größer", "x" * 300))
        elif kind == 5:
            stat.bytes_value = rng.choice((b"", b"\xff\x00", b"y" * 200))
        elif kind == 6:
            stat.ref_value = rng.randrange(10)


def _number(rng: random.Random) -> int:
    return rng.choice((0, 1, -1, 127, 128, 2**31, 2**62, -(2**62), 2**63 - 1, rng.randrange(2**50)))


@pytest.mark.parametrize("seed", range(20))
def test_columns_are_what_messages_are(seed):
    """Numbers of every size and sign, texts, bytes and references are the same."""
    content = made_up(random.Random(seed)).SerializeToString()

    assert by_columns(content) == by_messages(content)


@pytest.mark.parametrize("name", RECORDINGS)
def test_recordings_of_others_read_the_same(name):
    """The same holds for what XLA and xprof wrote."""
    content = golden(*name.split("/")).read_bytes()

    assert by_columns(content) == by_messages(content)


def _shuffled(content: bytes, schema: dict[int, Any], rng: random.Random) -> bytes:
    """Return the fields of a message in another order, with one that nobody knows."""
    fields = [b"".join(field) for field in _fields(content, schema, rng)]
    fields.append(bytes([0x7D]) + b"four")
    rng.shuffle(fields)
    return b"".join(fields)


def _fields(content: bytes, schema: dict[int, Any], rng: random.Random) -> Iterator[list[bytes]]:
    at = 0
    while at < len(content):
        start, (tag, at) = at, _varint(content, at)
        if tag & 7 == 0:
            _, at = _varint(content, at)
        elif tag & 7 == 1:
            at += 8
        else:
            size, at = _varint(content, at)
            at += size
            if tag >> 3 in schema:
                inner = _shuffled(content[at - size : at], schema[tag >> 3], rng)
                yield [bytes([tag]), _written(len(inner)), inner]
                continue
        yield [content[start:at]]


def _varint(content: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (content[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if content[at - 1] < 0x80:
            return value, at


def _written(value: int) -> bytes:
    written = bytearray()
    while value >= 0x80:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*written, value])


@pytest.mark.parametrize("seed", range(20))
def test_any_order_of_fields_reads_the_same(seed):
    """Fields in an order that no writer produces, and unknown ones, are legal and change nothing.

    Events and stats are in another order themselves, which both ways must keep.
    """
    rng = random.Random(seed)
    # Planes, lines, events, stats.
    schema: dict[int, Any] = {1: {3: {4: {4: {}}}}}
    content = _shuffled(made_up(rng).SerializeToString(), schema, rng)

    assert by_columns(content) == by_messages(content)


def test_the_last_of_several_values_counts():
    """A stat with two values, and an event with offset and occurrences, have the last one."""
    # Stat 1 has the numbers 5 and then 6; the event an offset of 9000 and then 3 occurrences.
    stat = bytes((0x08, 1, 0x18, 5, 0x20, 6))
    event = bytes((0x08, 1, 0x10, *_written(9000), 0x22, len(stat), *stat, 0x28, 3))
    line = bytes((0x22, len(event), *event))
    plane = bytes((0x12, 9)) + b"/host:CPU" + bytes((0x1A, len(line), *line))
    content = bytes((0x0A, len(plane))) + plane

    assert by_columns(content) == by_messages(content)
    assert by_columns(content)[0][-1][-1] == [(1, 0, 0, "{'': 6}")]


@pytest.mark.parametrize("seed", range(300))
def test_damaged_bytes_are_refused_by_both_or_by_none(seed):
    """Bytes that changed, or were cut off, never read in another way than by the library."""
    rng = random.Random(seed)
    content = bytearray(made_up(random.Random(seed % 20)).SerializeToString())
    for _ in range(rng.choice((1, 1, 3, 20))):
        content[rng.randrange(len(content))] = rng.randrange(256)
    damaged = bytes(content[: rng.choice((len(content), rng.randrange(len(content))))])

    try:
        expected = by_messages(damaged)
    except UnreadableInput:
        with pytest.raises(UnreadableInput):
            by_columns(damaged)
    else:
        assert by_columns(damaged) == expected


def test_events_of_a_kind_have_the_same_stats():
    """Kinds differ by any of the stats asked for, be it number or text, and by no other."""
    events = [
        TraceEvent("a", 0, 1, {"hlo_op": "x", "other": 1}),
        TraceEvent("a", 1, 1, {"hlo_op": "y", "other": 2}),
        TraceEvent("a", 2, 1, {"hlo_op": "x", "other": 3}),
        TraceEvent("a", 3, 1, {"other": 4}),
        TraceEvent("b", 4, 1, {"hlo_op": "x", "size": 2}),
        TraceEvent("b", 5, 1, {"hlo_op": "x", "size": 3}),
    ]
    (plane,) = read_planes(xspace({"/host:CPU": {"main": events}}))
    (line,) = plane.lines

    found = line.alike([plane.stat_ids("hlo_op"), plane.stat_ids("size")], line.every())

    assert found.examples[found.kinds].tolist() == [0, 1, 0, 3, 4, 5]
    assert line.integers(plane.stat_ids("other"), line.every()).tolist() == [1, 2, 3, 4, 0, 0]


def test_what_has_lines_of_planes_is_a_capture():
    """A name like a path and a line tell an XSpace; neither alone does."""
    assert holds_planes(xspace({"/host:CPU": {"main": []}}))
    assert not holds_planes(xspace({"/host:CPU": {}, "Task Environment": {"main": []}}))
    assert not holds_planes(b"text")
