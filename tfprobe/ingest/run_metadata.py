"""Decode RunMetadata bytes into rows, with the accounting of tfprof.

A node of an accelerator appears several times in StepStats: on the device that scheduled it, on
`stream:all`, on its own stream, and on `memcpy` for transfers. Only the first two are its time
(reference: TensorFlow's core/profiler/internal/tfprof_node.cc); a memcpy row is a transfer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from tfprobe.errors import UnreadableInput
from tfprobe.ingest.messages import parse
from tfprobe.model.executions import Place, Row

# The devices whose rows are the host's own time; the same pattern as tfprof's.
_CANONICAL = re.compile(r".*/(device:gpu|gpu|device:cpu|cpu|device:sycl):\d+\Z")
_LABEL = re.compile(r"(?:\[.*?\] )?\S+ = (\w+)\(")
_TRANSFERS = (
    ("htod", Place.HOST_TO_DEVICE),
    ("h2d", Place.HOST_TO_DEVICE),
    ("dtoh", Place.DEVICE_TO_HOST),
    ("d2h", Place.DEVICE_TO_HOST),
)
_MEMCPY_BYTES = re.compile(r"(?:num_bytes|size): ?(\d+)")


def rows(content: bytes, *, graph_types: Mapping[str, str] | None = None) -> list[Row]:
    """Return one row per node execution; `graph_types` tells the op of nodes without a label.

    Raises UnreadableInput when the bytes are no RunMetadata or hold no step.
    """
    message = parse(content, "tfprobe.step_stats.RunMetadata")
    if not message.step_stats.dev_stats:
        raise UnreadableInput("a RunMetadata without step statistics")
    return list(_rows(message.step_stats.dev_stats, graph_types or {}))


def _rows(devices: Any, graph_types: Mapping[str, str]) -> Iterator[Row]:
    op_types = {**graph_types, **_op_types(devices)}
    home: dict[str, str] = {}
    for device in devices:
        place = _place(device.device.lower())
        if place is None:
            continue
        threads = dict(device.thread_names)
        for node in device.node_stats:
            name = node.node_name.split(":", 1)[0]
            if _is_not_a_node(name, place) or not node.all_start_micros:
                continue  # as tfprof: what never started took no time
            if place is Place.HOST and home.setdefault(name, device.device) != device.device:
                continue  # as tfprof: a node belongs to the first canonical device it is seen on
            yield _row(node, name, device.device, place, op_types, threads)


def _place(device: str) -> Place | None:
    """Return what the rows of a device mean; None for those that repeat another device's."""
    if "stream:all" in device:
        return Place.ACCELERATOR
    if _CANONICAL.match(device):
        return Place.HOST
    return Place.DEVICE_TO_DEVICE if device.endswith("memcpy") else None


def _is_not_a_node(name: str, place: Place) -> bool:
    """Say whether a row is the executor's own start mark, or a transfer among the kernels."""
    return name == "_SOURCE" or ("MEMCPY" in name and place in (Place.HOST, Place.ACCELERATOR))


def _row(
    node: Any,
    name: str,
    device: str,
    place: Place,
    op_types: dict[str, str],
    threads: dict[int, str],
) -> Row:
    requested = output = 0
    if place is Place.HOST:
        requested, output = _memory_bytes(node)
    if place is Place.DEVICE_TO_DEVICE:
        place, requested = _transfer(node)
    lane = threads.get(node.thread_id) or str(node.thread_id)
    return Row(
        device=device,
        lane=lane,
        name=name,
        op_type=op_types.get(name, name),
        place=place,
        start_ns=node.all_start_nanos or node.all_start_micros * 1000,
        duration_ns=_duration_ns(node),
        bytes=requested,
        output_bytes=output,
    )


def _duration_ns(node: Any) -> int:
    """Return the time inside the op; where only µs were recorded, at least one, as tfprof."""
    nanos: int = node.op_end_rel_nanos
    return nanos if nanos > 0 else max(node.op_end_rel_micros, 1) * 1000


def _memory_bytes(node: Any) -> tuple[int, int]:
    """Return requested bytes (all allocators, temporary and persistent) and bytes of outputs."""
    requested = 0
    for used in node.memory:
        requested += used.total_bytes
    if node.HasField("memory_stats"):
        stats = node.memory_stats
        requested += stats.temp_memory_size + stats.persistent_memory_size
    output = 0
    for slot in node.output:
        described = slot.tensor_description.allocation_description
        output += max(described.allocated_bytes, described.requested_bytes)
    return requested, output


def _transfer(node: Any) -> tuple[Place, int]:
    text = f"{node.node_name} {node.timeline_label}"
    place = next((p for key, p in _TRANSFERS if key in text.lower()), Place.DEVICE_TO_DEVICE)
    size = _MEMCPY_BYTES.search(text)
    return place, int(size[1]) if size else 0


def _op_types(devices: Any) -> dict[str, str]:
    """Return the op type of every node which some row tells it for.

    `name = Type(inputs)` is the label of host rows; `name:Type` the name or label of kernels.
    """
    types: dict[str, str] = {}
    for device in devices:
        for node in device.node_stats:
            name, _, after = node.node_name.partition(":")
            label = _LABEL.match(node.timeline_label)
            if label is not None:
                types[name] = label[1]
            elif name not in types:
                told = after or _after_colon(node.timeline_label, name)
                if told:
                    types[name] = told.split("@@")[0].split(":")[0]
    return types


def _after_colon(label: str, name: str) -> str:
    prefix = f"{name}:"
    rest = label[len(prefix) :] if label.startswith(prefix) else ""
    return rest.split(" ", 1)[0]
