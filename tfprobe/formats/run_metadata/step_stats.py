"""Decode the StepStats of a RunMetadata, row for row and without any accounting."""

from __future__ import annotations

from typing import Any

from tfprobe.errors import Missing, UnreadableInput
from tfprobe.formats.schema import parse
from tfprobe.profile.records import NOT_RECORDED, DeviceStats, NodeStats, TensorOutput

_NO_RANK = Missing("the rank is unknown")


def step_stats(content: bytes) -> tuple[DeviceStats, ...]:
    """Return the statistics of each device, in the order of the RunMetadata.

    Raises UnreadableInput if the bytes are not a RunMetadata or contain no step.
    """
    message = parse(content, "tfprobe.step_stats.RunMetadata")
    if not message.step_stats.dev_stats:
        raise UnreadableInput("a RunMetadata without step statistics")
    return tuple(_device(device) for device in message.step_stats.dev_stats)


def step_stats_text(content: bytes) -> str:
    """Return the StepStats of a RunMetadata in protobuf's text form, without unknown fields.

    Raises UnreadableInput if the bytes are not a RunMetadata.
    """
    return str(parse(content, "tfprobe.step_stats.RunMetadata").step_stats)


def _device(device: Any) -> DeviceStats:
    # Software traces have no memory records, and neither do streams; on a device with some records,
    # a node without one requested nothing.
    has_memory = any(node.memory for node in device.node_stats)
    nodes = (_node(node, has_memory=has_memory) for node in device.node_stats)
    return DeviceStats(device.device, tuple(nodes))


def _node(node: Any, *, has_memory: bool) -> NodeStats:
    return NodeStats(
        name=node.node_name,
        label=node.timeline_label,
        start_us=node.all_start_micros,
        duration_us=node.all_end_rel_micros,
        outputs=tuple(_output(each) for each in node.output),
        total_bytes=sum(used.total_bytes for used in node.memory) if has_memory else NOT_RECORDED,
    )


def _output(output: Any) -> TensorOutput:
    described = output.tensor_description
    allocation = described.allocation_description
    shape = tuple(dim.size for dim in described.shape.dim)
    return TensorOutput(
        slot=output.slot,
        dtype=_dtype(described),
        shape=_NO_RANK if described.shape.unknown_rank else shape,
        allocator=allocation.allocator_name,
        requested_bytes=allocation.requested_bytes,
        description=str(described),
    )


def _dtype(described: Any) -> str:
    names = described.DESCRIPTOR.fields_by_name["dtype"].enum_type.values_by_number
    return names[described.dtype].name if described.dtype in names else str(described.dtype)
