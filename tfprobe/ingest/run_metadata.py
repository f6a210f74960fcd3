"""Decode RunMetadata bytes into rows, with the accounting of tfprof.

A node of an accelerator appears several times in StepStats: on the device that scheduled it, on
`stream:all`, on its own stream, and on `memcpy` for transfers. Only the first two are its time
(reference: TensorFlow's core/profiler/internal/tfprof_node.cc); a memcpy row is a transfer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tfprobe.errors import UnreadableInput
from tfprobe.ingest.columns import int32s, int64s
from tfprobe.ingest.messages import parse
from tfprobe.model.executions import Executions, Place
from tfprobe.model.strings import Interner
from tfprobe.model.tables import Columns, Int32s, Int64s

# The devices whose rows are the host's own time; the same pattern as tfprof's.
_CANONICAL = re.compile(r".*/(device:gpu|gpu|device:cpu|cpu|device:sycl):\d+\Z")
_UNKNOWN = -1
_LABEL = re.compile(r"(?:\[.*?\] )?\S+ = (\w+)\(")
_TRANSFERS = (
    ("htod", Place.HOST_TO_DEVICE),
    ("h2d", Place.HOST_TO_DEVICE),
    ("dtoh", Place.DEVICE_TO_HOST),
    ("d2h", Place.DEVICE_TO_HOST),
)
# The year 2255: later times, in ns, would not fit.
_LATEST_US = 9_000_000_000_000_000
_MEMCPY_BYTES = re.compile(r"(?:num_bytes|size): ?(\d+)")


def rows(content: bytes) -> Executions:
    """Return one row per node execution of a capture by itself.

    Raises UnreadableInput when the bytes are no RunMetadata or hold no step.
    """
    return Reader(Interner()).read(content)


class Reader:
    """Decodes captures of one graph: what the name of a node says is found out once.

    Strings become positions in `interner`. `graph_types` tells the op of nodes whose rows do not;
    it is asked when the first such comes. Memory takes most of the time, and is left 0 without
    `with_memory`.
    """

    def __init__(
        self,
        interner: Interner,
        graph_types: Callable[[], Mapping[str, str]] = dict,
        *,
        with_memory: bool = True,
    ) -> None:
        """Know nothing yet."""
        self._with_memory = with_memory
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

    def read(self, content: bytes) -> Executions:
        """Return one row per node execution.

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
        columns = Columns(Executions)
        for device, at_device, positions in zip(devices, nodes, names, strict=True):
            place = place_of(device.device.lower())
            if place is not None:
                self._add(columns, device, at_device, place, positions, home)
        return columns.rows(self._interner)

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
        columns: Columns[Executions],
        device: Any,
        nodes: Sequence[Any],
        place: Place,
        names: Int32s,
        home: Int32s,
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
        elif place is Place.DEVICE_TO_DEVICE:
            facts["place"], facts["bytes"] = _transfers(nodes)
        columns.add(
            len(nodes),
            device=at_device,
            lane=self._lanes(nodes, dict(device.thread_names)),
            name=names[chosen],
            op_type=self._types_of(names[chosen]),
            start_ns=_start_ns(nodes, start_us[chosen]),
            duration_ns=_duration_ns(nodes),
            **facts,
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


def place_of(device: str) -> Place | None:
    """Return what the rows of a device mean; None for those that repeat another device's."""
    if "stream:all" in device:
        return Place.ACCELERATOR
    if _CANONICAL.match(device):
        return Place.HOST
    return Place.DEVICE_TO_DEVICE if device.endswith("memcpy") else None


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


def _transfers(nodes: Sequence[Any]) -> tuple[list[int], Int64s]:
    """Return the direction of each copy, and its size where the row tells it."""
    found = [_transfer(node) for node in nodes]
    return [int(place) for place, _ in found], int64s([size for _, size in found])


def _transfer(node: Any) -> tuple[Place, int]:
    text = f"{node.node_name} {node.timeline_label}"
    place = next((p for key, p in _TRANSFERS if key in text.lower()), Place.DEVICE_TO_DEVICE)
    size = _MEMCPY_BYTES.search(text)
    return place, int(size[1]) if size else 0


def _after_colon(label: str, name: str) -> str:
    prefix = f"{name}:"
    rest = label[len(prefix) :] if label.startswith(prefix) else ""
    return rest.split(" ", 1)[0]
