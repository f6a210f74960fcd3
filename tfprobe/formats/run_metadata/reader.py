"""Decode RunMetadata bytes into rows, with the accounting of tfprof.

A node of an accelerator appears several times in StepStats: on the device that scheduled it, on
`stream:all`, on its own stream, and on `memcpy` for transfers. Only the first two are its time
(reference: TensorFlow's core/profiler/internal/tfprof_node.cc); a memcpy row is a transfer.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tfprobe.errors import UnreadableInput
from tfprobe.formats.run_metadata.allocations import Owners, add_allocations
from tfprobe.formats.run_metadata.copies import (
    RECEIVED,
    CopyRow,
    Directions,
    directions,
    is_sync,
    kernel,
    place_of,
    received,
    transfer,
)
from tfprobe.formats.run_metadata.nodes import NodeReader, Nodes
from tfprobe.formats.run_metadata.split import CaptureDevice, SplitCaptures, take_apart
from tfprobe.formats.trace import Trace
from tfprobe.formats.wire import texts
from tfprobe.profile.capture_tables import Allocations, Executions, Place, SpanKind, Spans
from tfprobe.profile.tables import Columns, Flags, Int32s, Int64s, Interner, int32s, int64s, used

_UNKNOWN = -1
# What names of accelerators' devices and allocators have in them, in capitals or not.
_ACCELERATOR = "GPU"
# Numbers of threads below it are counted faster than sorted.
_FEW_THREADS = 2**12
_LABEL = re.compile(r"(?:\[.*?\] )?\S+ = (\w+)\(")
# The year 2255: later times, in ns, would not fit.
_LATEST_US = 9_000_000_000_000_000
# What fits into 64 bits in ns.
_MOST_US = (2**63 - 1) // 1000


def read(content: bytes) -> Trace:
    """Return what a capture by itself holds.

    Raises UnreadableInput when the bytes are no RunMetadata or hold no step.
    """
    return _read_alone(content, with_spans=True)


def rows(content: bytes) -> Executions:
    """Return one row per node execution of a capture by itself.

    Raises UnreadableInput when the bytes are no RunMetadata or hold no step.
    """
    return _read_alone(content, with_spans=False).rows


def _read_alone(content: bytes, *, with_spans: bool) -> Trace:
    interner = Interner()
    (written,) = take_apart(NodeReader(interner), [content])
    if isinstance(written, UnreadableInput):
        raise written
    return RunMetadataReader(interner, with_spans=with_spans).read(written)


class RunMetadataReader:
    """Decodes captures of one graph: what the name of a node says is found out once.

    All of them are taken apart by one NodeReader, which numbers the names. Strings become positions
    in `interner`. `graph_types` tells the op of nodes whose rows do not; it is asked when the first
    such comes. Bytes of ops are left 0 without `with_memory`. Without `with_spans` there are rows
    of ops, kernels and copies alone; without `with_host_allocations` no allocation of the host's
    own memory.
    """

    def __init__(
        self,
        interner: Interner,
        graph_types: Callable[[], Mapping[str, str]] = dict,
        *,
        with_memory: bool = True,
        with_spans: bool = True,
        with_host_allocations: bool = True,
    ) -> None:
        """Know nothing yet."""
        self._with_memory = with_memory
        self._with_spans = with_spans
        self._with_host_allocations = with_host_allocations
        self._interner = interner
        # By device and the number of a node's name as it is written: the position of its own name.
        self._names: dict[str, Int32s] = {}
        # By the position of a node's name: that of its op, as rows tell it, and as it was settled.
        self._types: dict[int, int] = {}
        self._type_at = np.empty(0, dtype=np.int32)
        self._marks: set[int] = set()
        self._copies: set[int] = set()
        self._received: set[int] = set()
        self._ask_graph = graph_types
        self._graph_types: Mapping[str, str] | None = None

    def read(self, written: SplitCaptures) -> Trace:
        """Return one row per node execution, and the allocations, by time.

        Raises UnreadableInput where a time does not fit.
        """
        nodes, devices = written.nodes, written.devices
        names = [self._learn(nodes, device) for device in devices]
        home = np.full(len(self._interner), -1, dtype=np.int32)
        columns = _Columns(Columns(Executions), Columns(Spans), Columns(Allocations))
        known = directions((each.name, _rows(nodes, each.rows)) for each in devices)
        owners = []
        for device, positions in zip(devices, names, strict=True):
            place = place_of(device.name.lower())
            if place is not None:
                chosen = self._add(columns.rows, nodes, device, place, positions, home, known)
                owners += [chosen] if place is Place.HOST else []
            elif self._with_spans and is_sync(device.name):
                self._add_waits(columns.spans, nodes, device)
        if owners and self._with_spans:
            joined = Owners(*(np.concatenate(each) for each in zip(*owners, strict=True)))
            add_allocations(columns.allocations, nodes, joined, self._has_wanted_memory)
        return Trace(
            rows=columns.rows.rows(self._interner),
            spans=columns.spans.rows(self._interner).by("start_ns"),
            allocations=columns.allocations.rows(self._interner).by("at_ns"),
        )

    def _has_wanted_memory(self, names: Int32s) -> Flags | None:
        """Say which of the names are an accelerator's device or allocator; None of all wanted."""
        if self._with_host_allocations:
            return None
        wanted = np.zeros(len(self._interner), dtype=np.bool_)
        for at in used(names):
            wanted[at] = _ACCELERATOR in self._interner.text(at).upper()
        return wanted[names]

    def _learn(self, nodes: Nodes, device: CaptureDevice) -> Int32s:
        """Return the positions of the names of a device's nodes, after a look at the new ones."""
        numbers = nodes.name_number[device.rows]
        known = self._names.get(device.name, np.empty(0, dtype=np.int32))
        lacking = int(numbers.max(initial=-1)) + 1 - len(known)
        if lacking > 0:
            known = np.pad(known, (0, lacking), constant_values=_UNKNOWN)
            self._names[device.name] = known
        (new,) = (known[numbers] == _UNKNOWN).nonzero()
        _, first = np.unique(numbers[new], return_index=True)
        rows = np.sort(new[first])
        at = device.rows.start + rows
        names = texts(nodes.buffer, nodes.name.at(at))
        labels = texts(nodes.buffer, nodes.label.at(at))
        known[numbers[rows]] = [*map(self._learn_node, names, labels)]
        return known[numbers]

    def _learn_node(self, written: bytes, label: bytes) -> int:
        """Note what a row says of its node; return the position of the node's name."""
        name, op, is_sure = _name_and_op(written, label)
        at = self._interner.position(name)
        if op is not None and (is_sure or at not in self._types):
            self._types[at] = self._interner.position(op)
        if at < len(self._type_at):
            self._type_at[at] = _UNKNOWN  # of what was settled this may tell more
        if name == "_SOURCE":
            self._marks.add(at)
        elif "MEMCPY" in name:
            self._copies.add(at)
        elif name == RECEIVED:
            self._received.add(at)
        return at

    def _add(
        self,
        columns: Columns[Executions],
        nodes: Nodes,
        device: CaptureDevice,
        place: Place,
        names: Int32s,
        home: Int32s,
        known: Directions,
    ) -> Owners:
        """Add the rows of a device and return them; `home` is where each name was first seen."""
        at_device = self._interner.position(device.name)
        start_us = nodes.start_us[device.rows]
        if start_us.max(initial=0) > _LATEST_US:
            raise UnreadableInput("a step of the far future")
        # As tfprof: what never started took no time.
        chosen = start_us != 0
        chosen &= ~self._is_no_node(names, place)
        if place is Place.HOST:
            # As tfprof: a node belongs to the first canonical device it is seen on.
            found = names[chosen]
            home[found] = np.where(home[found] < 0, at_device, home[found])
            # A tensor from another task is no node: all that come to a device are named alike.
            chosen &= (home[names] == at_device) | self._is_received(names)
        here = np.flatnonzero(chosen)
        names, at = names[here], here + device.rows.start
        op_types = self._types_of(names)
        start_ns, duration_ns = _start_ns(nodes, at), _duration_ns(nodes, at)
        columns.add(
            len(at),
            device=at_device,
            lane=self._lanes(nodes.thread[at], device.threads),
            name=names,
            op_type=op_types,
            start_ns=start_ns,
            duration_ns=duration_ns,
            **self._facts(nodes, at, names, place, known),
        )
        devices = np.full(len(at), at_device, dtype=np.int32)
        return Owners(at, devices, names, op_types, start_ns, start_ns + duration_ns)

    def _facts(
        self, nodes: Nodes, at: Int64s, names: Int32s, place: Place, known: Directions
    ) -> dict[str, Any]:
        """Return the columns that depend on the place. Any: arrays, or one value for all."""
        facts: dict[str, Any] = {"place": place}
        if place is Place.HOST:
            facts |= self._of_received(nodes, at, names)
        if place is Place.HOST and self._with_memory:
            facts |= {"bytes": nodes.requested.at(at), "output_bytes": nodes.allocated.at(at)}
        elif place is Place.ACCELERATOR:
            labels = _labels(nodes, at)
            facts["detail"] = [self._interner.position(kernel(label)) for label in labels]
        elif place is Place.DEVICE_TO_DEVICE:
            found = [transfer(row, known) for row in _rows(nodes, at)]
            facts["place"] = [int(each.place) for each in found]
            facts["bytes"] = int64s(each.bytes for each in found)
            facts["detail"] = [self._interner.position(each.detail) for each in found]
        return facts

    def _is_received(self, names: Int32s) -> Flags:
        found: Flags = np.isin(names, [*self._received])
        return found

    def _of_received(self, nodes: Nodes, at: Int64s, names: Int32s) -> dict[str, Any]:
        """Return what rows say of tensors from other tasks, if there are any. Any: of two types."""
        if not self._received:
            return {}
        is_received = self._is_received(names)
        labels = np.zeros(len(at), dtype=np.int32)
        labels[is_received] = [
            self._interner.position(received(label)) for label in _labels(nodes, at[is_received])
        ]
        # What moved is no memory of an op: it is told in any case.
        return {"detail": labels, "output_bytes": np.where(is_received, nodes.allocated.at(at), 0)}

    def _add_waits(self, columns: Columns[Spans], nodes: Nodes, device: CaptureDevice) -> None:
        """Add the calls of the driver that waited for a device."""
        at = np.arange(device.rows.start, device.rows.stop)
        names = texts(nodes.buffer, nodes.name.at(at))
        columns.add(
            len(at),
            kind=SpanKind.SYNC,
            lane=self._lanes(nodes.thread[at], {}),
            name=[self._interner.position(name.decode()) for name in names],
            start_ns=_start_ns(nodes, at),
            duration_ns=_duration_ns(nodes, at),
        )

    def _is_no_node(self, names: Int32s, place: Place) -> Flags:
        """Say which are the executor's own mark, or transfers among the kernels."""
        at_kernels = place in (Place.HOST, Place.ACCELERATOR)
        no_nodes = [*self._marks, *(self._copies if at_kernels else ())]
        # Most often it is the mark alone.
        return names == no_nodes[0] if len(no_nodes) == 1 else np.isin(names, no_nodes)

    def _lanes(self, threads: Int64s, names: Mapping[int, str]) -> Int32s:
        numbers, at = _distinct(threads)
        lanes = ((names.get(number) or str(number)) for number in numbers.tolist())
        return int32s(map(self._interner.position, lanes), len(numbers))[at]

    def _types_of(self, names: Int32s) -> Int32s:
        """Return the op of each name; where neither a row nor the graph tells it, the name."""
        grown = np.full(len(self._interner) - len(self._type_at), _UNKNOWN, dtype=np.int32)
        self._type_at = np.concatenate((self._type_at, grown))
        for at in np.unique(names[self._type_at[names] == _UNKNOWN]).tolist():
            self._type_at[at] = self._type_of(at)
        return self._type_at[names]

    def _type_of(self, at: int) -> int:
        if at in self._types:
            return self._types[at]
        if self._graph_types is None:
            self._graph_types = self._ask_graph()
        name = self._interner.text(at)
        return self._interner.position(self._graph_types.get(name, name))


@dataclass(frozen=True, slots=True)
class _Columns:
    """The columns of a capture on their way."""

    rows: Columns[Executions]
    spans: Columns[Spans]
    allocations: Columns[Allocations]


def _distinct(threads: Int64s) -> tuple[Int64s, Int64s]:
    """Return which there are, upwards, and the place among them of each."""
    if threads.max(initial=0) >= _FEW_THREADS:
        return np.unique(threads, return_inverse=True)
    is_there = np.bincount(threads) > 0
    return np.flatnonzero(is_there), (np.cumsum(is_there) - 1)[threads]


def _start_ns(nodes: Nodes, at: Int64s) -> Int64s:
    start_ns = nodes.start_ns[at]
    return np.where(start_ns == 0, nodes.start_us[at] * 1000, start_ns)


def _duration_ns(nodes: Nodes, at: Int64s) -> Int64s:
    """Return the time inside each op; where only µs were recorded, at least one, as tfprof."""
    duration_ns = nodes.end_ns[at]
    if (duration_ns > 0).all():
        return duration_ns
    in_us = np.maximum(nodes.end_us[at], 1)
    if in_us.max() > _MOST_US:
        raise UnreadableInput("a time or size that does not fit into 64 bits")
    return np.where(duration_ns > 0, duration_ns, in_us * 1000)


def _rows(nodes: Nodes, at: slice | Int64s) -> Iterator[CopyRow]:
    names = texts(nodes.buffer, nodes.name.at(at))
    labels = texts(nodes.buffer, nodes.label.at(at))
    for name, start_us, label in zip(names, nodes.start_us[at].tolist(), labels, strict=True):
        yield CopyRow(name.decode(), start_us, label.decode())


def _labels(nodes: Nodes, at: Int64s) -> Iterator[str]:
    return (label.decode() for label in texts(nodes.buffer, nodes.label.at(at)))


# Processes of one job have the same nodes.
@functools.lru_cache(maxsize=2**14)
def _name_and_op(written: bytes, label: bytes) -> tuple[str, str | None, bool]:
    """Return the name of a row's node, its op where the row tells it, and whether that is sure.

    `name = Type(inputs)` is the label of host rows, which nothing overrules; `name:Type` the
    name or label of kernels.
    """
    name, _, after = written.decode().partition(":")
    op = _LABEL.match(label.decode())
    if op is not None:
        return name, op[1], True
    op_text = after or _after_colon(label.decode(), name)
    return name, op_text.split("@@")[0].split(":")[0] if op_text else None, False


def _after_colon(label: str, name: str) -> str:
    prefix = f"{name}:"
    rest = label[len(prefix) :] if label.startswith(prefix) else ""
    return rest.split(" ", 1)[0]
