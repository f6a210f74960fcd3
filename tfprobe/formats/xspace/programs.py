"""Decode what XLA programs ran on the host: one row for each instruction that has an event.

TensorFlow (2.21; 2.16 does not yet) and JAX write an event for each, on any thread, with the
stats `hlo_op`, `hlo_module` and `program_id`; the HLO of all programs is in a plane of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from tfprobe.errors import UnreadableInput
from tfprobe.formats import hlo
from tfprobe.formats.xspace.names import HOST
from tfprobe.formats.xspace.plane import Plane
from tfprobe.formats.xspace.stats import number, stat_values
from tfprobe.profile.executions import Executions, Place
from tfprobe.profile.strings import Interner
from tfprobe.profile.tables import Columns, Int64s

METADATA = "/host:metadata"
_HLO_STAT = "Hlo Proto"
# "jit_train_step(56)": a module and the number of its program.
_PROGRAM = re.compile(r"(?P<module>.*)\((?P<id>\d+)\)\Z", re.DOTALL)


class HloOp(NamedTuple):
    """What an instruction is called where ops are; `is_container` if others ran inside it."""

    name: str
    op_type: str
    is_container: bool


class Programs:
    """The programs whose HLO a capture holds; one is read when an instruction of it is wanted."""

    def __init__(self, planes: Iterable[Any]) -> None:
        """Note where the programs are. Any: XPlanes."""
        self._contents: dict[tuple[str, int], bytes] = {}
        self._read: dict[tuple[str, int], hlo.Program | None] = {}
        for plane in planes:
            if plane.name == METADATA:
                self._contents |= _contents(plane)

    def op(self, stats: Mapping[str, Any]) -> HloOp | None:
        """Return what the instruction is called that an event's stats name; None if unknown.

        It is called after the op of the framework that it stands for; where several of a program
        were compiled from one op, each is one below that op. Any: stats are numbers and texts.
        """
        program = self._program(str(stats.get("hlo_module")), number(stats.get("program_id")))
        known = None if program is None else program.instructions.get(str(stats.get("hlo_op")))
        if known is None:
            return None
        if not known.op:
            name = known.name
        else:
            name = f"{known.op}/{known.name}" if known.shares_op else known.op
        return HloOp(name, known.op_type or known.opcode, known.opcode in hlo.CONTAINERS)

    def _program(self, module: str, program: int) -> hlo.Program | None:
        key = (module, program)
        if key not in self._read:
            content = self._contents.get(key)
            try:
                self._read[key] = None if content is None else hlo.read(content)
            except UnreadableInput:
                self._read[key] = None  # its instructions are then known by their own names
        return self._read[key]


def add_hlo_ops(
    columns: Columns[Executions], interner: Interner, plane: Plane, programs: Programs
) -> bool:
    """Add the instructions of XLA programs that ran on a plane's threads; say whether any did."""
    found = False
    for line in range(len(plane.lines)):
        places = _places(plane, line)
        told = [_op(plane, event, programs) for event in plane.events_at(line, places)]
        is_row = np.array([op is not None and not op.is_container for op in told], dtype=np.bool_)
        ops = [op for op in told if op is not None and not op.is_container]
        start_ns, duration_ns = plane.times_ns(line, places[is_row])
        found = found or bool(ops)
        columns.add(
            len(ops),
            device=interner.position(HOST),
            lane=interner.position(plane.lines[line].name),
            name=[interner.position(op.name) for op in ops],
            op_type=[interner.position(op.op_type) for op in ops],
            place=Place.HOST,
            start_ns=start_ns,
            duration_ns=duration_ns,
        )
    return found


def _places(plane: Plane, line: int) -> Int64s:
    """Return the places of the events of a line that may be instructions: their first ones are."""
    ids = plane.stat_ids("hlo_op")
    everywhere = np.arange(len(plane.lines[line].events) if ids else 0)
    numbers = plane.numbers_at(line, everywhere)
    known, first = np.unique(numbers, return_index=True)
    events = plane.events_at(line, first)
    wanted = [any(stat.metadata_id in ids for stat in event.stats) for event in events]
    return np.flatnonzero(np.isin(numbers, known[np.array(wanted, dtype=np.bool_)]))


def _op(plane: Plane, event: Any, programs: Programs) -> HloOp | None:
    stats = stat_values(plane.message, event.stats)
    instruction = str(stats.get("hlo_op") or "")
    if not instruction:
        return None
    unknown = HloOp(instruction, instruction.partition(".")[0], is_container=False)
    return programs.op(stats) or unknown


def _contents(plane: Any) -> dict[tuple[str, int], bytes]:
    """Return the HLO of each program, unread, by its module and number."""
    contents = {}
    for metadata in plane.event_metadata.values():
        program = _PROGRAM.match(metadata.name)
        content = stat_values(plane, metadata.stats).get(_HLO_STAT)
        if program is not None and isinstance(content, bytes):
            contents[(program["module"], int(program["id"]))] = content
    return contents
