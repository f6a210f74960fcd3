"""Draw a view as a timeline, as tfprof does.

Of a graph: when each node ran on each device, what data flowed between devices, what the GPU's
memory held. Of scopes and code: boxes as long as what is in them took, which is no real time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from tfprobe.analysis.ops.cost_tree import Branch, TreeNode
from tfprobe.analysis.ops.op_stats import value
from tfprobe.export.trace_events import TraceEvents
from tfprobe.profile.records import GraphProfile, Record

Place = TypeVar("Place", Branch, TreeNode)

# A memory sample closer to the last one is not drawn.
_MEMORY_PAUSE_US = 100
_TOP_ALLOCATIONS = 10


@dataclass(slots=True, eq=False)
class _Box:
    """One execution on one device. `arrows` lead to boxes on other devices that took its output."""

    node: int
    start_us: int
    duration_us: int
    pid: int
    lane: int = 0
    arrows: list[_Box] = field(default_factory=list)

    @property
    def end_us(self) -> int:
        return self.start_us + self.duration_us


def tree_timeline(shown: TreeNode) -> str:
    """Return the timeline of a scope or code view: a level of the tree is a row."""
    events = TraceEvents()
    pids: list[int] = []
    waiting = [(shown, 0, 0)]
    while waiting:
        each, depth, start_us = waiting.pop()
        if depth == len(pids):
            pids.append(events.process(f"Scope:{depth}"))
        name = each.branch.name
        events.box(name, pids[depth], 0, start_us, _micros(each), op=name)
        starts = []
        for child in each.children:
            if _micros(child) > 0:
                starts.append((child, depth + 1, start_us))
                start_us += _micros(child)
        waiting.extend(reversed(starts))
    return events.to_json()


def graph_timeline(profile: GraphProfile, shown: TreeNode, step: int) -> str:
    """Return the timeline of the nodes of a graph view in one step."""
    events = TraceEvents()
    nodes = [each.branch.members[0] for each in _preorder(shown) if each.branch.members]
    tracked = [at for at in nodes if _is_trackable(profile, at, step)]
    boxes = _boxes(profile, tracked, step, events)
    # Nodes need only be accounted: an arrow may leave from the box of another node, which is shown.
    accounted = [at for each in _preorder(shown.branch) for at in each.members]
    producers = {at for at in accounted if _is_trackable(profile, at, step)}
    _connect(profile, producers, step, boxes)
    number = 0
    for on_device in sorted(boxes.values(), key=lambda each: min(box.pid for box in each.values())):
        for box in _in_lanes(on_device.values()):
            name = profile.graph.nodes[box.node].name
            events.box(name, box.pid, box.lane, box.start_us, box.duration_us)
            for to in box.arrows:
                number += 1
                events.arrow_end("s", f"{name}_flow", number, box.pid, box.lane, box.end_us)
                events.arrow_end("t", f"{name}_flow", number, to.pid, to.lane, to.start_us)
    _add_memory(profile, tracked, step, events)
    return events.to_json()


def _boxes(
    profile: GraphProfile, nodes: Iterable[int], step: int, events: TraceEvents
) -> dict[str, dict[int, _Box]]:
    """Return the boxes of each device by start; of two with the same start the first is kept."""
    boxes: dict[str, dict[int, _Box]] = {}
    pids: dict[str, int] = {}
    for at in nodes:
        record = profile.records[at][step]
        for device, spans in sorted({**record.accelerator, **record.cpu}.items()):
            if device not in pids:
                role = "execution" if "stream" in device else "scheduling"
                pids[device] = events.process(f"Op {role} threads: {device}")
            for span in spans:
                box = _Box(at, span.start_us, span.duration_us, pids[device])
                boxes.setdefault(device, {}).setdefault(span.start_us, box)
    for on_device in boxes.values():
        _lay_out(on_device)
    return boxes


def _lay_out(boxes: dict[int, _Box]) -> None:
    """Put each box into the first lane that is free when it starts."""
    ends: list[int] = []
    for start_us in sorted(boxes):
        box = boxes[start_us]
        free = (lane for lane, end in enumerate(ends) if end <= start_us)
        box.lane = next(free, len(ends))
        ends[box.lane : box.lane + 1] = [box.end_us]


def _in_lanes(boxes: Iterable[_Box]) -> list[_Box]:
    return sorted(boxes, key=lambda box: (box.lane, box.start_us))


def _connect(
    profile: GraphProfile, producers: set[int], step: int, boxes: dict[str, dict[int, _Box]]
) -> None:
    """Draw arrows to each box from those of its inputs that were made on other devices."""
    ids = {node.name: at for at, node in enumerate(profile.graph.nodes)}
    for device in sorted(boxes):
        if "stream" in device:
            continue
        for start_us in sorted(boxes[device]):
            box = boxes[device][start_us]
            inputs = profile.graph.nodes[box.node].inputs
            for index in sorted(inputs):
                producer = ids.get(inputs[index])
                home = profile.devices[producer] if producer is not None else None
                if producer not in producers or home is None or home == device:
                    continue
                # As the engine: by start, though the box of that start may be another node's.
                on_device = boxes.get(home, {})
                for span in profile.records[producer][step].cpu.get(home, ()):
                    if span.start_us in on_device:
                        on_device[span.start_us].arrows.append(box)


def _add_memory(
    profile: GraphProfile, nodes: Iterable[int], step: int, events: TraceEvents
) -> None:
    """Add the memory allocated on each GPU, and that of the largest nodes."""
    by_device: dict[str, list[int]] = {}
    for at in nodes:
        device = profile.devices[at]
        if device is not None and "cpu" not in device:
            by_device.setdefault(device, []).append(at)
    for device, at_device in sorted(by_device.items()):
        used_pid = events.process(f"mem usage on:{device}")
        top_pid = events.process(f"mem usage on:{device} allocations")
        in_use = {
            each.at_us: each.in_use_bytes
            for at in at_device
            for each in profile.records[at][step].memory
            if each.at_us > 0
        }
        live = {profile.graph.nodes[at].name: _live(profile, at, step) for at in at_device}
        last_us = 0
        for at_us in sorted(in_use):
            if at_us - last_us < _MEMORY_PAUSE_US:
                continue
            last_us = at_us
            used = {"Allocator Bytes in Use": in_use[at_us]}
            events.counter("Allocated Bytes", used_pid, at_us, used)
            events.counter("Top Allocations", top_pid, at_us, _top(live, at_us, in_use[at_us]))


def _live(profile: GraphProfile, at: int, step: int) -> dict[int, int]:
    """Return the bytes that a node has allocated, by the time from which on it has them."""
    changes = {0: max(map(_persistent_bytes, profile.records[at].values()), default=0)}
    for allocation in profile.records[at][step].allocations:
        changes[allocation.at_us] = changes.get(allocation.at_us, 0) + allocation.bytes
    allocated, live = 0, {}
    for at_us in sorted(changes):
        allocated += changes[at_us]
        live[at_us] = allocated
    return live


def _persistent_bytes(record: Record) -> int:
    return sum(each.persistent_bytes for each in record.memory if not each.on_host)


def _top(live: dict[str, dict[int, int]], at_us: int, remaining_bytes: int) -> dict[str, str]:
    holders = []
    for name, amounts in live.items():
        before = [moment for moment in amounts if moment < at_us]
        if before and amounts[max(before)] > 0:
            holders.append((amounts[max(before)], name))
    top = {f"Top Allocation {place:02}": "N/A" for place in range(1, _TOP_ALLOCATIONS)}
    place = 0
    for size, name in sorted(holders, key=lambda holder: (-holder[0], holder[1])):
        # A node with more than the remaining bytes was counted by another allocator.
        if place < _TOP_ALLOCATIONS and size <= remaining_bytes:
            top[f"Top Allocation {place:02}"] = f"{size / 1e6:g} MB from {name}"
            remaining_bytes -= size
            place += 1
    return {**top, "Not Displayed": f"{remaining_bytes / 1e6:.2f} MB"}


def _is_trackable(profile: GraphProfile, at: int, step: int) -> bool:
    record = profile.records[at].get(step)
    return record is not None and record.start_us > 0 and profile.devices[at] is not None


def _preorder(top: Place) -> Iterator[Place]:
    waiting = [top]
    while waiting:
        each = waiting.pop()
        yield each
        waiting.extend(reversed(each.children))


def _micros(shown: TreeNode) -> int:
    return value(shown.total, "micros")
