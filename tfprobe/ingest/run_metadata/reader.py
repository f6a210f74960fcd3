"""Decode RunMetadata bytes into rows, with the accounting of tfprof.

A node of an accelerator appears several times in StepStats: on the device that scheduled it, on
`stream:all`, on its own stream, and on `memcpy` for transfers. Only the first two are its time
(reference: TensorFlow's core/profiler/internal/tfprof_node.cc); a memcpy row is a transfer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tfprobe.errors import UnreadableInput
from tfprobe.ingest.columns import int32s, int64s
from tfprobe.ingest.messages import parse
from tfprobe.ingest.run_metadata.allocations import add_allocations
from tfprobe.ingest.run_metadata.copies import Directions, directions, kernel, transfer
from tfprobe.ingest.run_metadata.devices import is_sync, place_of
from tfprobe.ingest.trace import Trace
from tfprobe.model.allocations import Allocations
from tfprobe.model.executions import Executions, Place
from tfprobe.model.spans import SpanKind, Spans
from tfprobe.model.strings import Interner
from tfprobe.model.tables import Columns, Int32s, Int64s

_UNKNOWN = -1
_LABEL = re.compile(r"(?:\[.*?\] )?\S+ = (\w+)\(")
# The year 2255: later times, in ns, would not fit.
_LATEST_US = 9_000_000_000_000_000


def read(content: bytes) -> Trace:
    """Return what a capture by itself holds.

    Raises UnreadableInput when the bytes are no RunMetadata or hold no step.
    """
    return Reader(Interner()).read(content)


def rows(content: bytes) -> Executions:
    """Return one row per node execution of a capture by itself.

    Raises UnreadableInput when the bytes are no RunMetadata or hold no step.
    """
    return Reader(Interner(), with_spans=False).read(content).rows


class Reader:
    """Decodes captures of one graph: what the name of a node says is found out once.

    Strings become positions in `interner`. `graph_types` tells the op of nodes whose rows do not;
    it is asked when the first such comes. Memory takes most of the time, and is left 0 without
    `with_memory`. Without `with_spans` there are rows of ops, kernels and copies alone.
    """

    def __init__(
        self,
        interner: Interner,
        graph_types: Callable[[], Mapping[str, str]] = dict,
        *,
        with_memory: bool = True,
        with_spans: bool = True,
    ) -> None:
        """Know nothing yet."""
        self._with_memory = with_memory
        self._with_spans = with_spans
        self._interner = interner
        # By device and the name of a node as it is written there: the position of its own name.
        self._names: dict[str, dict[str, int]] = {}
        # By the position of a node's name: that of its op, as rows tell it, and as it was settled.
        self._types: dict[int, int] = {}
        self._type_at = np.empty(0, dtype=np.int32)
        self._marks: set[int] = set()
        self._copies: set[int] = set()
        self._ask_graph = graph_types
        self._graph_types: Mapping[str, str] | None = None

    def read(self, content: bytes) -> Trace:
        """Return one row per node execution, and the allocations, by time.

        Raises UnreadableInput when the bytes are no RunMetadata or hold no step.
        """
        message = parse(content, "tfprobe.step_stats.RunMetadata")
        if not message.step_stats.dev_stats:
            raise UnreadableInput("a RunMetadata without step statistics")
        devices = message.step_stats.dev_stats
        # A list keeps the nodes' Python objects, which are made anew at every look otherwise.
        nodes = [list(device.node_stats) for device in devices]
        names = [self._learn(*each) for each in zip(devices, nodes, strict=True)]
        home = np.full(len(self._interner), -1, dtype=np.int32)
        columns = _Columns(Columns(Executions), Columns(Spans), Columns(Allocations))
        known = directions(devices)
        for device, at_device, positions in zip(devices, nodes, names, strict=True):
            place = place_of(device.device.lower())
            if place is not None:
                self._add(columns, device, at_device, place, positions, home, known)
            elif self._with_spans and is_sync(device.device):
                self._add_waits(columns.spans, at_device)
        return Trace(
            rows=columns.rows.rows(self._interner),
            spans=columns.spans.rows(self._interner).by("start_ns"),
            allocations=columns.allocations.rows(self._interner).by("at_ns"),
        )

    def _learn(self, device: Any, nodes: Sequence[Any]) -> Int32s:
        """Return the positions of the names of a device's nodes, after a look at the new ones."""
        known = self._names.setdefault(device.device, {})
        written = [node.node_name for node in nodes]
        try:
            return int32s(map(known.__getitem__, written), len(written))
        except KeyError:
            for node in nodes:
                if node.node_name not in known:
                    known[node.node_name] = self._learn_node(node)
        return int32s(map(known.__getitem__, written), len(written))

    def _learn_node(self, node: Any) -> int:
        """Note what a row says of its node; return the position of the node's name.

        `name = Type(inputs)` is the label of host rows, which nothing overrules; `name:Type` the
        name or label of kernels.
        """
        name, _, after = node.node_name.partition(":")
        at = self._interner.position(name)
        label = _LABEL.match(node.timeline_label)
        if label is not None:
            self._types[at] = self._interner.position(label[1])
        elif at not in self._types:
            told = after or _after_colon(node.timeline_label, name)
            if told:
                self._types[at] = self._interner.position(told.split("@@")[0].split(":")[0])
        if at < len(self._type_at):
            self._type_at[at] = _UNKNOWN  # of what was settled this may tell more
        if name == "_SOURCE":
            self._marks.add(at)
        elif "MEMCPY" in name:
            self._copies.add(at)
        return at

    def _add(
        self,
        columns: _Columns,
        device: Any,
        nodes: Sequence[Any],
        place: Place,
        names: Int32s,
        home: Int32s,
        known: Directions,
    ) -> None:
        """Add the rows of a device; `home` is where each name was first seen on a host device."""
        at_device = self._interner.position(device.device)
        start_us = int64s([node.all_start_micros for node in nodes])
        if start_us.max(initial=0) > _LATEST_US:
            raise UnreadableInput("a step of the far future")
        # As tfprof: what never started took no time.
        chosen = (start_us != 0) & ~np.isin(names, self._no_nodes(place))
        if place is Place.HOST:
            # As tfprof: a node belongs to the first canonical device it is seen on.
            found = names[chosen]
            home[found] = np.where(home[found] < 0, at_device, home[found])
            chosen &= home[names] == at_device
        if not chosen.all():
            nodes = [node for node, take in zip(nodes, chosen.tolist(), strict=True) if take]
        facts: dict[str, Any] = {"place": place}
        if place is Place.HOST and self._with_memory:
            facts["bytes"], facts["output_bytes"] = _memory_bytes(nodes)
        elif place is Place.ACCELERATOR:
            facts["detail"] = [self._interner.position(kernel(node)) for node in nodes]
        elif place is Place.DEVICE_TO_DEVICE:
            facts |= self._transfers(nodes, known)
        names = names[chosen]
        op_types = self._types_of(names)
        start_ns, duration_ns = _start_ns(nodes, start_us[chosen]), _duration_ns(nodes)
        columns.rows.add(
            len(nodes),
            device=at_device,
            lane=self._lanes(nodes, dict(device.thread_names)),
            name=names,
            op_type=op_types,
            start_ns=start_ns,
            duration_ns=duration_ns,
            **facts,
        )
        if place is Place.HOST and self._with_spans:
            add_allocations(
                columns.allocations,
                self._interner,
                nodes,
                device=at_device,
                names=names,
                op_types=op_types,
                start_ns=start_ns,
                duration_ns=duration_ns,
            )

    def _transfers(self, nodes: Sequence[Any], known: Directions) -> dict[str, Any]:
        """Return the columns that say what copies moved."""
        found = [transfer(node, known) for node in nodes]
        return {
            "place": [int(each.place) for each in found],
            "bytes": int64s(each.bytes for each in found),
            "detail": [self._interner.position(each.detail) for each in found],
        }

    def _add_waits(self, columns: Columns[Spans], nodes: Sequence[Any]) -> None:
        """Add the calls of the driver that waited for a device."""
        start_us = int64s(node.all_start_micros for node in nodes)
        columns.add(
            len(nodes),
            kind=SpanKind.SYNC,
            lane=self._lanes(nodes, {}),
            name=[self._interner.position(node.node_name) for node in nodes],
            start_ns=_start_ns(nodes, start_us),
            duration_ns=_duration_ns(nodes),
        )

    def _no_nodes(self, place: Place) -> list[int]:
        """Return the names of the executor's own mark, and of transfers among the kernels."""
        at_kernels = place in (Place.HOST, Place.ACCELERATOR)
        return [*self._marks, *(self._copies if at_kernels else ())]

    def _lanes(self, nodes: Sequence[Any], threads: Mapping[int, str]) -> Int32s:
        written = [node.thread_id for node in nodes]
        lanes = {each: threads.get(each) or str(each) for each in set(written)}
        positions = {each: self._interner.position(lane) for each, lane in lanes.items()}
        return int32s(map(positions.__getitem__, written), len(written))

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


def _start_ns(nodes: Sequence[Any], start_us: Int64s) -> Int64s:
    start_ns = int64s([node.all_start_nanos for node in nodes])
    return np.where(start_ns == 0, start_us * 1000, start_ns)


def _duration_ns(nodes: Sequence[Any]) -> Int64s:
    """Return the time inside each op; where only µs were recorded, at least one, as tfprof."""
    duration_ns = int64s([node.op_end_rel_nanos for node in nodes])
    if (duration_ns > 0).all():
        return duration_ns
    in_us = int64s([max(node.op_end_rel_micros, 1) * 1000 for node in nodes])
    return np.where(duration_ns > 0, duration_ns, in_us)


def _memory_bytes(nodes: Sequence[Any]) -> tuple[Int64s, Int64s]:
    """Return requested bytes (all allocators, temporary and persistent) and bytes of outputs."""
    requested, held = [], []
    for node in nodes:
        total = 0
        for used in node.memory:
            total += used.total_bytes
        if node.HasField("memory_stats"):
            stats = node.memory_stats
            total += stats.temp_memory_size + stats.persistent_memory_size
        requested.append(total)
        total = 0
        for slot in node.output:
            described = slot.tensor_description.allocation_description
            total += max(described.allocated_bytes, described.requested_bytes)
        held.append(total)
    return int64s(requested), int64s(held)


def _after_colon(label: str, name: str) -> str:
    prefix = f"{name}:"
    rest = label[len(prefix) :] if label.startswith(prefix) else ""
    return rest.split(" ", 1)[0]
