"""Decode the events of PyTorch's allocators: one row for each piece allocated or freed."""

from __future__ import annotations

import re

import numpy as np

from tfprobe.formats.kineto.events import KinetoEvents
from tfprobe.formats.kineto.nesting import NONE, OpNesting, OpsAt
from tfprobe.formats.kineto.nodes import OpNodes
from tfprobe.formats.xspace import HOST
from tfprobe.profile.capture_tables import Allocations
from tfprobe.profile.tables import Columns, Int64s, Interner

# c10/core/DeviceType.h
_CPU = 0
_DEVICES = {1: ("cuda", "GPU"), 6: ("hip", "GPU"), 9: ("xla", "TPU"), 12: ("xpu", "XPU")}
_UNTOLD = -1
_ALLOCATES = re.compile(
    r"aten::(?:(?:new_)?(?:empty|zeros|ones|full)(?:_like|_strided|_quantized)?|resize_|_resize_output_"
    r"|clone|contiguous|to|_to_copy|copy_|zero_|fill_|set_|scalar_tensor)\Z"
)


def add_allocations(
    columns: Columns[Allocations],
    interner: Interner,
    events: KinetoEvents,
    nesting: OpNesting,
    ops_at: OpsAt,
    nodes: OpNodes,
) -> Int64s:
    """Add the events of allocators; return the op that each is of, -1 for none."""
    at_ns, lane, address, sizes, allocated, reserved, kind, device = events.memory
    op = ops_at.at(lane, at_ns, at_ns)
    op = _beyond_allocating(events, nesting, op)
    position = interner.position
    nodes_of = [nodes.names[nodes.of_op[each]] if each != NONE else "" for each in op.tolist()]
    names = [_names(*each) for each in zip(kind.tolist(), device.tolist(), strict=True)]
    has_total = allocated >= 0
    free = np.where(has_total & (reserved >= allocated), reserved - allocated, _UNTOLD)
    columns.add(
        len(at_ns),
        allocator=[position(allocator) for allocator, _ in names],
        device=[position(device) for _, device in names],
        op=[position(name) for name in nodes_of],
        op_type=[
            position(events.texts[events.name[each]]) if each != NONE else 0 for each in op.tolist()
        ],
        at_ns=at_ns,
        bytes=sizes,
        address=address,
        # On a CPU the total is of pieces that were allocated while a profiler ran, and nothing is
        # reserved.
        in_use_bytes=np.where(has_total & (kind != _CPU), allocated, _UNTOLD),
        free_bytes=np.where(kind == _CPU, _UNTOLD, free),
        peak_bytes=_UNTOLD,
        largest_free_bytes=_UNTOLD,
    )
    return op


def _beyond_allocating(events: KinetoEvents, nesting: OpNesting, op: Int64s) -> Int64s:
    """Return the ops that wanted pieces: not those that only allocate, but what called them."""
    only = np.array([_ALLOCATES.match(text) is not None for text in events.texts], dtype=np.bool_)
    while only.any():
        caller = np.where(op != NONE, nesting.parent[op], NONE)
        is_called = (op != NONE) & (caller != NONE)
        is_called[is_called] = only[events.name[op[is_called]]]
        if not is_called.any():
            break
        op = np.where(is_called, caller, op)
    return op


def _names(kind: int, device: int) -> tuple[str, str]:
    """Return the name of an allocator, and of its device."""
    if kind == _CPU:
        return "cpu", HOST
    name, family = _DEVICES.get(kind, (f"device type {kind}", "DEVICE"))
    number = max(device, 0)
    return f"{name}:{number}", f"/device:{family}:{number}"
