"""Decode what ran on devices, and the calls that started it.

A kernel or copy and the call that started it share `correlation`. A kernel belongs to the op around
that call. Sizes and memory kinds of copies are written as TensorFlow's tracer writes them, so that
views need only one form.
"""

from __future__ import annotations

import re

import numpy as np

from tfprobe.formats.kineto.events import Kind, KinetoEvents, text_positions
from tfprobe.formats.kineto.nesting import NONE, OpsAt
from tfprobe.formats.kineto.nodes import OpNodes
from tfprobe.formats.xspace import driver_call_kind
from tfprobe.profile.capture_tables import Executions, Place, Spans
from tfprobe.profile.tables import Columns, Int64s, Interner

_DIRECTION = re.compile(r"(?P<from>[HDP])to(?P<to>[HDP])")
_ENDS = re.compile(r"\((?P<from>\w+) -> (?P<to>\w+)\)")
# In the name of a call that does not wait for its copy.
_ASYNC = "Async"
# One call starts many kernels, which are not of the op around it, but were recorded before.
_GRAPHS = re.compile(r"\w*GraphLaunch")
_MEMORY = {"pageable": "pageable", "pinned": "pinned", "device": "device", "managed": "managed"}
_PLACES = {"HD": Place.HOST_TO_DEVICE, "DH": Place.DEVICE_TO_HOST}


class Devices:
    """What ran on devices, with the calls that started it, and the ops around these."""

    def __init__(self, events: KinetoEvents, ops_at: OpsAt) -> None:
        """Match all of them."""
        kind = events.kind
        self._events = events
        self._ran = np.flatnonzero(np.isin(kind, (Kind.KERNEL, Kind.COPY, Kind.MEMSET)))
        self._calls = np.flatnonzero(kind == Kind.CALL)
        numbers, ran = events.correlation[self._calls], events.correlation[self._ran]
        self._call = _matched(ran, numbers, self._calls)
        self._call[ran == 0] = NONE
        end_ns = events.start_ns + events.duration_ns
        started = self._call != NONE
        op = np.full(len(self._ran), NONE, dtype=np.int64)
        calls = self._call[started]
        op[started] = ops_at.at(events.lane[calls], events.start_ns[calls], end_ns[calls])
        # Newer traces write the number of the op, too.
        ops = np.flatnonzero((kind == Kind.OP) & (events.external > 0))
        alone = (op == NONE) & (events.external[self._ran] > 0)
        op[alone] = _matched(events.external[self._ran[alone]], events.external[ops], ops)
        self._op = op

    def add_rows(self, columns: Columns[Executions], interner: Interner, nodes: OpNodes) -> None:
        """Add a row for each kernel, copy and memset."""
        events, ran = self._events, self._ran
        position = interner.position
        names, op_types, places, sizes, details = [], [], [], [], []
        copied: dict[tuple[int, int, int], tuple[Place, str]] = {}
        for box, call, op in zip(ran.tolist(), self._call.tolist(), self._op.tolist(), strict=True):
            own = events.texts[events.name[box]]
            called = events.texts[events.name[call]] if call != NONE else ""
            node = nodes.names[nodes.of_op[op]] if op != NONE else own
            op_type = events.texts[events.name[op]] if op != NONE else own
            size, detail, place = 0, own, Place.ACCELERATOR
            if events.kind[box] == Kind.KERNEL:
                if _GRAPHS.match(called):
                    scope = node.rpartition("/")[0] if op != NONE else ""
                    node, op_type = f"{scope}/{own}" if scope else own, own
            else:
                size = int(events.size[box]) or int(events.size[call] if call != NONE else 0)
                op_type = own
                key = int(events.name[box]), size, int(events.name[call]) if call != NONE else NONE
                if key not in copied:
                    copied[key] = _moved(own, size, called, is_copy=events.kind[box] == Kind.COPY)
                place, detail = copied[key]
            names.append(position(node))
            op_types.append(position(op_type))
            places.append(place)
            sizes.append(size)
            details.append(position(detail))
        columns.add(
            len(ran),
            device=[position(f"/device:GPU:{number}") for number in events.device[ran].tolist()],
            lane=[position(events.lane_name(lane)) for lane in events.lane[ran].tolist()],
            name=names,
            op_type=op_types,
            place=places,
            start_ns=events.start_ns[ran],
            duration_ns=events.duration_ns[ran],
            bytes=sizes,
            output_bytes=np.where(events.message[ran] > 0, events.message[ran], self._messages()),
            detail=details,
            correlation=events.correlation[ran],
            collective=self._collectives(interner),
        )

    def _messages(self) -> Int64s:
        """Return the bytes that the collective around each launch moves."""
        around = self._op != NONE
        found = np.zeros(len(self._ran), dtype=np.int64)
        found[around] = self._events.message[self._op[around]]
        return found

    def _collectives(self, interner: Interner) -> Int64s:
        """Return what each kernel is called in all ranks, by its own facts or those of its op."""
        events = self._events
        found = events.collective[self._ran]
        alone = (found == NONE) & (self._op != NONE)
        found[alone] = events.collective[self._op[alone]]
        return text_positions(interner, events.texts, found)

    def add_spans(self, columns: Columns[Spans], interner: Interner) -> None:
        """Add a span for each call of the runtime or the driver."""
        events, calls = self._events, self._calls
        moved = np.flatnonzero(np.isin(events.kind, (Kind.COPY, Kind.MEMSET)))
        sizes = dict(
            zip(events.correlation[moved].tolist(), events.size[moved].tolist(), strict=True)
        )
        numbers = events.correlation[calls].tolist()
        position = interner.position
        columns.add(
            len(calls),
            kind=[driver_call_kind(events.texts[name]) for name in events.name[calls].tolist()],
            lane=[position(events.lane_name(lane)) for lane in events.lane[calls].tolist()],
            name=[position(events.texts[name]) for name in events.name[calls].tolist()],
            start_ns=events.start_ns[calls],
            duration_ns=events.duration_ns[calls],
            correlation=events.correlation[calls],
            bytes=[
                sizes.get(number, 0) or size
                for number, size in zip(numbers, events.size[calls].tolist(), strict=True)
            ],
        )


def _matched(wanted: Int64s, numbers: Int64s, rows: Int64s) -> Int64s:
    """Return the row with each wanted number, -1 where there is none; of several, the last."""
    found = np.full(len(wanted), NONE, dtype=np.int64)
    if not len(numbers):
        return found
    order = np.argsort(numbers, kind="stable")
    at = np.searchsorted(numbers[order], wanted, side="right") - 1
    known = (at >= 0) & (numbers[order][np.maximum(at, 0)] == wanted)
    found[known] = rows[order[at[known]]]
    return found


def _moved(name: str, size: int, called: str, *, is_copy: bool) -> tuple[Place, str]:
    """Return the place of a copy or memset, and its name in TensorFlow."""
    if is_copy:
        place, detail = _copy(name, size)
    else:
        place, detail = Place.DEVICE_TO_DEVICE, f"kind:device num_bytes:{size}"
    return place, f"{detail} async:{int(_ASYNC in called)}" if called else detail


def _copy(name: str, size: int) -> tuple[Place, str]:
    """Return the place of "Memcpy HtoD (Pageable -> Device)" and its name in TensorFlow."""
    direction, ends = _DIRECTION.search(name), _ENDS.search(name)
    way = f"{direction['from']}{direction['to']}" if direction else ""
    kinds = [_MEMORY.get(ends[at].lower(), "") for at in ("from", "to")] if ends else []
    kinds_text = f"kind_src:{kinds[0]} kind_dst:{kinds[1]} " if kinds and all(kinds) else ""
    return _PLACES.get(way, Place.DEVICE_TO_DEVICE), f"{kinds_text}size:{size}"
