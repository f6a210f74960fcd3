"""Decode traces of PyTorch's profiler (Kineto): ops, kernels, copies, calls and allocations."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from tfprobe.errors import UnreadableInput
from tfprobe.formats.gzipped import unpacked
from tfprobe.formats.kineto.allocations import add_allocations
from tfprobe.formats.kineto.devices import Devices
from tfprobe.formats.kineto.events import (
    Kind,
    KinetoEvents,
    is_kineto,
    read_events,
    text_positions,
)
from tfprobe.formats.kineto.nesting import NONE, OpNesting, OpsAt, nest
from tfprobe.formats.kineto.nodes import (
    NodeNames,
    OpNodes,
    parameters_of_modules,
    parameters_of_sums,
)
from tfprobe.formats.kineto.scopes import Module, Places
from tfprobe.formats.kineto.sections import add_sections
from tfprobe.formats.trace import Marker, Trace, TraceOrigin
from tfprobe.formats.xspace import HOST
from tfprobe.profile.capture_tables import Allocations, Executions, Place, Spans
from tfprobe.profile.tables import Columns, Int64s, Interner

_STEP = re.compile(r"ProfilerStep\s*#(\d{1,18})\Z")
_UPDATE = re.compile(r"Optimizer\.step#")
_MOST_RANKS = 10**7
# A single one tells nothing of where a step begins.
_LEAST_UPDATES = _LEAST_CALLS = 2
NO_MODULES: Mapping[str, Module] = MappingProxyType({})


class KinetoReader:
    """Decodes the traces of a process; ops that are alike have one name in all of them.

    Strings become positions in `interner`. Without `with_spans` there are no calls of the driver,
    without `with_memory` no allocations.
    """

    def __init__(
        self, interner: Interner, *, with_spans: bool = True, with_memory: bool = True
    ) -> None:
        """Start with nothing known."""
        self._interner = interner
        self._with_spans = with_spans
        self._with_memory = with_memory
        self._names = NodeNames()

    def read(self, content: bytes, modules: Mapping[str, Module] = NO_MODULES) -> Trace:
        """Decode the trace of a step, which may be compressed; `modules` are those of its model.

        It may contain nothing that ran.

        Raises UnreadableInput if the bytes are no trace, or contain invalid times.
        """
        content = unpacked(content)
        events = read_events(content)
        if not len(events.kind) and not is_kineto(content):
            raise UnreadableInput("JSON in which no event has a category of PyTorch's profiler")
        places = Places(events.texts, modules)
        nesting = nest(events, places)
        nodes = OpNodes(events, nesting, places, self._names)
        ops_at = OpsAt(events, nesting)
        devices = Devices(events, ops_at)
        interner = self._interner
        rows, spans, allocations = Columns(Executions), Columns(Spans), Columns(Allocations)
        of_piece = np.zeros(0, dtype=np.int64)
        if self._with_memory and events.memory:
            of_piece = add_allocations(allocations, interner, events, nesting, ops_at, nodes)
        _add_ops(rows, interner, events, nesting, nodes, of_piece)
        devices.add_rows(rows, interner, nodes)
        if self._with_spans:
            devices.add_spans(spans, interner)
            add_sections(spans, interner, events, nesting, modules)
        parameters = tuple(parameters_of_modules(modules)) or parameters_of_sums(
            events, nesting, places
        )
        return Trace(
            rows.rows(interner),
            spans.rows(interner).by("start_ns"),
            allocations.rows(interner).by("at_ns"),
            markers=tuple(_markers(events) or _updates(events) or _forwards(events, nesting)),
            origin=_origin(events.head),
            nodes={**nodes.nodes, **{node.name: node for node in parameters}},
        )


def read(content: bytes) -> Trace:
    """Decode a trace; its steps are those that the program marked (ProfilerStep).

    Raises UnreadableInput if it contains nothing that ran, or invalid times.
    """
    trace = KinetoReader(Interner()).read(content)
    if not len(trace.rows):
        raise UnreadableInput("a trace of PyTorch in which nothing ran on a device or a host")
    return trace


def _origin(head: Mapping[str, Any]) -> TraceOrigin:
    """Return the process that wrote a trace, by its head. Any: JSON."""
    info = head.get("distributedInfo")
    known = info if isinstance(info, dict) else {}
    rank, world = known.get("rank"), known.get("world_size")
    host = head.get("host_name")
    return TraceOrigin(
        rank if type(rank) is int and 0 <= rank < _MOST_RANKS else None,
        world if type(world) is int and 0 < world < _MOST_RANKS else None,
        host if isinstance(host, str) else "",
    )


def _markers(events: KinetoEvents) -> list[Marker]:
    found = []
    for box in np.flatnonzero(events.kind == Kind.STEP).tolist():
        step = _STEP.match(events.texts[events.name[box]])
        if step is not None:
            start_ns = int(events.start_ns[box])
            found.append(Marker(int(step[1]), start_ns, start_ns + int(events.duration_ns[box])))
    return sorted(found, key=lambda marker: marker.start_ns)


def _updates(events: KinetoEvents) -> list[Marker]:
    """Return the steps between updates of the model, if the program marked none.

    Each ends with an update, the first begins with the trace. Of several optimizers, the one that
    updates most often counts.
    """
    names = [at for at, text in enumerate(events.texts) if _UPDATE.match(text)]
    marks = np.flatnonzero((events.kind == Kind.ANNOTATION) & np.isin(events.name, names))
    if not len(marks):
        return []
    most = int(np.argmax(np.bincount(events.name[marks])))
    marks = marks[events.name[marks] == most]
    ends_ns = np.unique(events.start_ns[marks] + events.duration_ns[marks])
    if len(ends_ns) < _LEAST_UPDATES:
        return []
    ran = events.start_ns[events.kind == Kind.OP]
    starts_ns = [int(ran.min(initial=int(ends_ns[0]))), *ends_ns[:-1].tolist()]
    return [
        Marker(number, *window)
        for number, window in enumerate(zip(starts_ns, ends_ns.tolist(), strict=True))
    ]


def _forwards(events: KinetoEvents, nesting: OpNesting) -> list[Marker]:
    """Return the calls of the outermost module that takes most time, where nothing is trained."""
    if nesting.is_backward.any():
        return []
    is_module = np.array([text.startswith("nn.Module: ") for text in events.texts], dtype=np.bool_)
    boxes = np.flatnonzero(events.kind == Kind.FRAME)
    boxes = boxes[is_module[events.name[boxes]]] if len(boxes) else boxes
    boxes = boxes[np.lexsort((-events.duration_ns[boxes], events.start_ns[boxes]))]
    calls: dict[tuple[int, int], list[Marker]] = {}
    until_ns: dict[int, int] = {}
    for box in boxes.tolist():
        lane, start_ns = int(events.lane[box]), int(events.start_ns[box])
        if start_ns < until_ns.get(lane, 0):
            continue
        until_ns[lane] = end_ns = start_ns + int(events.duration_ns[box])
        found = calls.setdefault((lane, int(events.name[box])), [])
        found.append(Marker(len(found), start_ns, end_ns))
    most = max(calls.values(), key=_length_ns, default=[])
    return most if len(most) >= _LEAST_CALLS else []


def _length_ns(calls: list[Marker]) -> int:
    return sum(call.end_ns - call.start_ns for call in calls)


def _add_ops(
    columns: Columns[Executions],
    interner: Interner,
    events: KinetoEvents,
    nesting: OpNesting,
    nodes: OpNodes,
    of_piece: Int64s,
) -> None:
    """Add a row for each op of the host."""
    ops = nesting.order[np.argsort(events.start_ns[nesting.order], kind="stable")]
    position = interner.position
    lanes = np.array([position(events.lane_name(at)) for at in range(len(events.lanes))] or [0])
    names = np.array([position(name) for name in nodes.names] or [0])
    allocated = np.zeros(len(events.kind), dtype=np.int64)
    if len(of_piece):
        taken = (of_piece != NONE) & (events.memory[3] > 0)
        np.add.at(allocated, of_piece[taken], events.memory[3][taken])
    columns.add(
        len(ops),
        device=position(HOST),
        lane=lanes[events.lane[ops]],
        name=names[nodes.of_op[ops]],
        op_type=text_positions(interner, events.texts, events.name[ops]),
        place=Place.HOST,
        start_ns=events.start_ns[ops],
        duration_ns=events.duration_ns[ops],
        nested_ns=np.minimum(nesting.nested_ns[ops], events.duration_ns[ops]),
        correlation=-nesting.link[ops],
        bytes=allocated[ops],
        output_bytes=events.message[ops],
        collective=text_positions(interner, events.texts, events.collective[ops]),
    )
