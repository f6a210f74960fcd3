"""Find the programs of XLA in a capture, and the executions of their instructions.

The plane of metadata has an HloProto for each program that was alive, most of which did not run. A
program is decoded when an event of one of its instructions is. `Programs` answers by program and
instruction; what an instruction computes is in `hlo_module`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from tfprobe.errors import UnreadableInput
from tfprobe.formats.schema import parse
from tfprobe.formats.wire import delimited
from tfprobe.formats.xspace.hlo_program import CONTAINERS, HloProgram, Instruction, read_hlo
from tfprobe.formats.xspace.plane import HOST, Plane, number, stat_values, times_ns
from tfprobe.formats.xspace.stat_layouts import Key, StatReader
from tfprobe.profile.capture_tables import Executions, Place
from tfprobe.profile.graph import Node
from tfprobe.profile.tables import Columns, Int64s, Interner, int64s

METADATA = "/host:metadata"
_HLO_STAT = "Hlo Proto"
# "jit_train_step(56)": a module and the number of its program.
_PROGRAM = re.compile(r"(?P<module>.*)\((?P<id>\d+)\)\Z", re.DOTALL)
# A module and the number of its program.
ProgramKey = tuple[str, int]


class HloOp(NamedTuple):
    """The op name of an instruction; `is_container` if others ran inside it."""

    name: str
    op_type: str
    is_container: bool


class Programs:
    """The programs whose HLO a capture contains; each is decoded on demand."""

    def __init__(
        self, planes: Iterable[Any], known: dict[ProgramKey, HloProgram] | None = None
    ) -> None:
        """Record where the programs are. Any: XPlanes.

        `known` are programs of earlier captures of the process; those of this one are added.
        """
        self._contents: dict[ProgramKey, bytes] = {}
        self._known: dict[ProgramKey, HloProgram] = {} if known is None else known
        self._ran: dict[ProgramKey, HloProgram | None] = {}
        for plane in planes:
            if plane.name == METADATA:
                self._contents |= _contents(plane)
        self._by_module: dict[str, list[int]] = {}
        for module, at in self._contents:
            self._by_module.setdefault(module, []).append(at)

    def op(self, stats: Mapping[str, Any]) -> HloOp | None:
        """Return the op name of the instruction in an event's stats; None if unknown.

        It is named after the framework op it was compiled from; if several instructions of a
        program were compiled from one op, each becomes a child of that op. Any: stats are numbers
        and texts.
        """
        module = str(stats.get("hlo_module"))
        program = self.program((module, self._number(module, stats)))
        known = None if program is None else program.instructions.get(str(stats.get("hlo_op")))
        if known is None:
            return None
        return HloOp(known.op_name, known.op_type or known.opcode, known.opcode in CONTAINERS)

    def _number(self, module: str, stats: Mapping[str, Any]) -> int:
        """Return the number of a program; without one in the stats, the only one of its module."""
        if "program_id" in stats:
            return number(stats["program_id"])
        alike = self._by_module.get(module, [])
        return alike[0] if len(alike) == 1 else 0

    def modules(self) -> tuple[ProgramKey, ...]:
        """Return the names of modules and the numbers of programs that the capture contains."""
        return tuple(self._contents)

    def content(self, key: ProgramKey) -> bytes:
        """Return the HloProto of a program."""
        return self._contents[key]

    def program(self, key: ProgramKey) -> HloProgram | None:
        """Return a program; None if the capture does not contain it or it is unreadable."""
        if key not in self._ran:
            self._ran[key] = self._decoded(key)
        return self._ran[key]

    def ran(self) -> tuple[ProgramKey, ...]:
        """Return the programs that were asked for and are known."""
        return tuple(key for key, program in self._ran.items() if program is not None)

    def _decoded(self, key: ProgramKey) -> HloProgram | None:
        if key in self._known:
            return self._known[key]
        content = self._contents.get(key)
        if content is None:
            return None
        try:
            self._known[key] = read_hlo(content)
        except UnreadableInput:
            return None  # its instructions then keep their own names
        return self._known[key]


def ran_nodes(
    content: bytes, keys: Iterable[ProgramKey]
) -> tuple[dict[str, Node], set[ProgramKey]]:
    """Return a node for each instruction of JAX's programs, by the names of their rows.

    Also returns which of the programs the XSpace contains. Of two instructions of one name, the
    first counts.

    Raises UnreadableInput if the bytes are not an XSpace.
    """
    programs = Programs(metadata_planes(content))
    nodes: dict[str, Node] = {}
    for key in keys:
        program = programs.program(key)
        for instruction in program.instructions.values() if program else ():
            if instruction.is_of_jax and instruction.opcode not in CONTAINERS:
                nodes.setdefault(instruction.op_name, _node(instruction))
    return nodes, set(programs.ran())


def _node(instruction: Instruction) -> Node:
    op = instruction.op_type or instruction.opcode
    return Node(
        name=instruction.op_name,
        op=op,
        types=frozenset({op}),
        trace=instruction.frames or None,
        fused=instruction.fused,
        is_backward=instruction.is_backward,
    )


_PLANES, _PLANE_NAME = 1, 2


def _name(plane: memoryview) -> bytes:
    return next((bytes(text) for field, text in delimited(plane) if field == _PLANE_NAME), b"")


def metadata_planes(content: bytes) -> list[Any]:
    """Return the planes of programs; events, most of a capture, are not decoded. Any: XPlanes."""
    planes = []
    for field, plane in delimited(memoryview(content)):
        if field == _PLANES and _name(plane) == METADATA.encode():
            planes.append(parse(bytes(plane), "tfprobe.xplane.XPlane"))
    return planes


def _contents(plane: Any) -> dict[ProgramKey, bytes]:
    """Return the undecoded HLO of each program, by its module and number."""
    contents = {}
    for metadata in plane.event_metadata.values():
        program = _PROGRAM.match(metadata.name)
        content = stat_values(plane, metadata.stats).get(_HLO_STAT)
        if program is not None and isinstance(content, bytes):
            contents[(program["module"], int(program["id"]))] = content
    return contents


def add_hlo_ops(
    columns: Columns[Executions], interner: Interner, plane: Plane, programs: Programs
) -> bool:
    """Add the XLA instructions that ran on a plane's threads; return whether any did.

    One that ends on another thread, where an event "end: NAME" tells it, lasts until then.
    """
    if not plane.stat_ids(_INSTRUCTION):
        return False
    ends_ns = _ends_ns(plane)
    position = interner.position
    reader = StatReader(plane.message, _OF_INSTRUCTION, _BEGUN if ends_ns else ())
    # Name and type of the op of each kind of event, as positions; None for those of no row.
    known: dict[Key, tuple[int, int] | None] = {}
    found = False
    for line in range(len(plane.lines)):
        places = _places(plane, line)
        rows, names, types, until_ns = [], [], [], []
        for at, event in enumerate(plane.events_at(line, places)):
            key, connection = reader.read(event)
            if key not in known:
                op = _op(plane, event, programs)
                is_row = op is not None and not op.is_container
                known[key] = (position(op.name), position(op.op_type)) if op and is_row else None
            op_positions = known[key]
            if op_positions is not None:
                rows.append(at)
                names.append(op_positions[0])
                types.append(op_positions[1])
                until_ns.append(ends_ns.get(connection, 0))
        start_ns, duration_ns = plane.times_ns(line, places[rows])
        found = found or bool(rows)
        columns.add(
            len(rows),
            device=position(HOST),
            lane=position(plane.lines[line].name),
            name=names,
            op_type=types,
            place=Place.HOST,
            start_ns=start_ns,
            duration_ns=np.maximum(duration_ns, int64s(until_ns) - start_ns),
        )
    return found


_INSTRUCTION = "hlo_op"
_OF_INSTRUCTION = (_INSTRUCTION, "hlo_module", "program_id")
_END = "end: "
# The numbers that join the events of something asynchronous, and their types.
_BEGUN, _ENDED = ("_p", "_pt"), ("_c", "_ct")


def _ends_ns(plane: Plane) -> dict[tuple[int, ...], int]:
    """Return when asynchronous instructions ended, by what joins them with their begin."""
    named = zip(plane.names.values(), plane.numbers.tolist(), strict=True)
    wanted = {at for name, at in named if name.startswith(_END)}
    found: dict[tuple[int, ...], int] = {}
    for number_of_line, line in enumerate(plane.lines if wanted else ()):
        events = plane.events(number_of_line, wanted)
        starts_ns, _ = times_ns(line, events)
        for event, start_ns in zip(events, starts_ns.tolist(), strict=True):
            found[_connection(plane, event, _ENDED)] = start_ns
    found.pop(_UNCONNECTED, None)
    return found


_UNCONNECTED = (0, 0)


def _connection(plane: Plane, event: Any, names: tuple[str, str]) -> tuple[int, int]:
    value, kind = (plane.integer(event, name) for name in names)
    return value, kind


def _places(plane: Plane, line: int) -> Int64s:
    """Return the indices of a line's events that may be instructions, judged by the first ones."""
    ids = plane.stat_ids(_INSTRUCTION)
    everywhere = np.arange(len(plane.lines[line].events) if ids else 0)
    numbers = plane.numbers_at(line, everywhere)
    known, first = np.unique(numbers, return_index=True)
    events = plane.events_at(line, first)
    wanted = [any(stat.metadata_id in ids for stat in event.stats) for event in events]
    return np.flatnonzero(np.isin(numbers, known[np.array(wanted, dtype=np.bool_)]))


def _op(plane: Plane, event: Any, programs: Programs) -> HloOp | None:
    stats = stat_values(plane.message, event.stats)
    instruction = str(stats.get(_INSTRUCTION) or "")
    if not instruction:
        return None
    unknown = HloOp(instruction, instruction.partition(".")[0], is_container=False)
    return programs.op(stats) or unknown
