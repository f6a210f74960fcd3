"""Decode RunMetadata bytes into rows, with the accounting of tfprof.

A node of an accelerator appears several times in StepStats: on the device that scheduled it, on
`stream:all`, on its own stream, and on `memcpy` for transfers. Only the first two count as its time
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
# Part of the names of accelerator devices and allocators, in upper or lower case.
_ACCELERATOR = "GPU"
# Thread numbers below this are counted faster than sorted.
_FEW_THREADS = 2**12
_LABEL = re.compile(r"(?:\[.*?\] )?\S+ = (\w+)\(")
# The year 2255: later times would not fit in ns.
_LATEST_US = 9_000_000_000_000_000
# The most µs that fit into 64 bits as ns.
_MOST_US = (2**63 - 1) // 1000


def read(content: bytes) -> Trace:
    """Decode a single capture.

    Raises UnreadableInput if the bytes are not a RunMetadata or contain no step.
    """
    return _read_alone(content, with_spans=True)


def rows(content: bytes) -> Executions:
    """Return one row per node execution of a single capture.

    Raises UnreadableInput if the bytes are not a RunMetadata or contain no step.
    """
    return _read_alone(content, with_spans=False).rows


def _read_alone(content: bytes, *, with_spans: bool) -> Trace:
    interner = Interner()
    (written,) = take_apart(NodeReader(interner), [content])
    if isinstance(written, UnreadableInput):
        raise written
    return RunMetadataReader(interner, with_spans=with_spans).read(written)


class RunMetadataReader:
    """Decodes captures of one graph; each node name is interpreted only once.

    All of them must be split by one NodeReader, which numbers the names. Strings become positions
    in `interner`. `graph_types` returns the ops of nodes, for nodes whose rows do not contain them;
    it is called at the first such node. Without `with_memory`, bytes of ops stay 0. Without
    `with_spans` there are only rows of ops, kernels and copies; without `with_host_allocations`
    there are no allocations of the host's own memory.
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
        """Start with nothing known."""
        self._with_memory = with_memory
        self._with_spans = with_spans
        self._with_host_allocations = with_host_allocations
        self._interner = interner
        # Device and number of a node's written name -> the position of its own name.
        self._names: dict[str, Int32s] = {}
        # Position of a node's name -> position of its op: from the rows, and as finally determined.
        self._types: dict[int, int] = {}
        self._type_at = np.empty(0, dtype=np.int32)
        self._marks: set[int] = set()
        self._copies: set[int] = set()
        self._received: set[int] = set()
        self._ask_graph = graph_types
        self._graph_types: Mapping[str, str] | None = None

    def read(self, written: SplitCaptures) -> Trace:
        """Return one row per node execution, and the allocations, by time.

        Raises UnreadableInput if a time does not fit.
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
        """Return which names are an accelerator's device or allocator; None if all are wanted."""
        if self._with_host_allocations:
            return None
        wanted = np.zeros(len(self._interner), dtype=np.bool_)
        for at in used(names):
            wanted[at] = _ACCELERATOR in self._interner.text(at).upper()
        return wanted[names]

    def _learn(self, nodes: Nodes, device: CaptureDevice) -> Int32s:
        """Return the positions of the names of a device's nodes, learning the new ones first."""
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
        """Record what a row says about its node; return the position of the node's name."""
        name, op, is_sure = _name_and_op(written, label)
        at = self._interner.position(name)
        if op is not None and (is_sure or at not in self._types):
            self._types[at] = self._interner.position(op)
        if at < len(self._type_at):
            self._type_at[at] = _UNKNOWN  # this row may say more than what was determined
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
        # As in tfprof: a node that never started took no time.
        chosen = start_us != 0
        chosen &= ~self._is_no_node(names, place)
        if place is Place.HOST:
            # As in tfprof: a node belongs to the first canonical device it is seen on.
            found = names[chosen]
            home[found] = np.where(home[found] < 0, at_device, home[found])
            # A tensor from another task is not a node: all that arrive at a device have one name.
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
        """Return the descriptions of tensors from other tasks, if any. Any: of two types."""
        if not self._received:
            return {}
        is_received = self._is_received(names)
        labels = np.zeros(len(at), dtype=np.int32)
        labels[is_received] = [
            self._interner.position(received(label)) for label in _labels(nodes, at[is_received])
        ]
        # What was moved is not an op's memory, so it is always included.
        return {"detail": labels, "output_bytes": np.where(is_received, nodes.allocated.at(at), 0)}

    def _add_waits(self, columns: Columns[Spans], nodes: Nodes, device: CaptureDevice) -> None:
        """Add the driver calls that waited for a device."""
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
        """Return which names are the executor's own mark, or transfers among the kernels."""
        at_kernels = place in (Place.HOST, Place.ACCELERATOR)
        no_nodes = [*self._marks, *(self._copies if at_kernels else ())]
        # In most cases there is only the mark.
        return names == no_nodes[0] if len(no_nodes) == 1 else np.isin(names, no_nodes)

    def _lanes(self, threads: Int64s, names: Mapping[int, str]) -> Int32s:
        numbers, at = _distinct(threads)
        lanes = ((names.get(number) or str(number)) for number in numbers.tolist())
        return int32s(map(self._interner.position, lanes), len(numbers))[at]

    def _types_of(self, names: Int32s) -> Int32s:
        """Return the op of each name; the name itself if neither a row nor the graph has the op."""
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
    """The columns of a capture under construction."""

    rows: Columns[Executions]
    spans: Columns[Spans]
    allocations: Columns[Allocations]


def _distinct(threads: Int64s) -> tuple[Int64s, Int64s]:
    """Return the distinct values in ascending order, and the index of each value among them."""
    if threads.max(initial=0) >= _FEW_THREADS:
        return np.unique(threads, return_inverse=True)
    is_there = np.bincount(threads) > 0
    return np.flatnonzero(is_there), (np.cumsum(is_there) - 1)[threads]


def _start_ns(nodes: Nodes, at: Int64s) -> Int64s:
    start_ns = nodes.start_ns[at]
    return np.where(start_ns == 0, nodes.start_us[at] * 1000, start_ns)


def _duration_ns(nodes: Nodes, at: Int64s) -> Int64s:
    """Return the time inside each op; if only µs were recorded, at least one, as in tfprof."""
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
    """Return the name of a row's node, its op if the row contains it, and whether that is certain.

    `name = Type(inputs)` is the label of host rows, which takes precedence; `name:Type` is the name
    or label of kernels.
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
