"""Find the programs of XLA in a capture, and the executions of their instructions.

The plane of metadata has an HloProto for each program that was alive, most of which did not run. A
program is decoded when an event of one of its instructions is. `Programs` answers by program and
instruction; what an instruction computes is in `hlo_module`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tfprobe.errors import UnreadableInput
from tfprobe.formats.schema import parse
from tfprobe.formats.wire import delimited
from tfprobe.formats.xspace.hlo_program import CONTAINERS, HloProgram, Instruction, read_hlo
from tfprobe.formats.xspace.plane import HOST, Plane, number, stat_values
from tfprobe.profile.capture_tables import Executions, Place
from tfprobe.profile.graph import Node
from tfprobe.profile.tables import Columns, Flags, Int64s, Interner, int64s

METADATA = "/host:metadata"
_HLO_STAT = "Hlo Proto"
# "jit_train_step(56)": a module and the number of its program.
_PROGRAM = re.compile(r"(?P<module>.*)\((?P<id>\d+)\)\Z", re.DOTALL)
# A module and the number of its program.
ProgramKey = tuple[str, int]


class HloOp(NamedTuple):
    """The op name of an instruction; `is_container` if it runs others.

    `inside` are the names of those, `instruction` is its own; `program` is unknown if it is None.
    """

    name: str
    op_type: str
    is_container: bool
    instruction: str
    program: ProgramKey | None = None
    inside: frozenset[str] = frozenset()


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
        key = module, self._number(module, stats)
        program = self.program(key)
        known = None if program is None else program.instructions.get(str(stats.get("hlo_op")))
        if program is None or known is None:
            return None
        return HloOp(
            known.op_name,
            known.op_type or known.opcode,
            is_container=known.opcode in CONTAINERS,
            instruction=known.name,
            program=key,
            inside=program.inside.get(known.name, frozenset()),
        )

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
        every = program.instructions.values() if program else ()
        for instruction in sorted(every, key=lambda each: each.opcode in CONTAINERS):
            if instruction.is_of_jax:
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

    One that ends on another thread, where an event "end: NAME" tells it, lasts until then, or until
    that thread began the next instruction, which it may do before it writes that event. If programs
    ran on several devices of the process, rows name theirs. An instruction that runs others is a
    row only if none of these has an event, as where XLA compiled them into one function.
    """
    if not plane.stat_ids(_INSTRUCTION):
        return False
    kinds, every = _lines(plane, programs)
    is_row = _are_rows([kind.op for kind in kinds])
    every = [each for line in every if len((each := _only(line, is_row)).kinds)]
    starts_ns = {line.number: np.sort(line.start_ns) for line in every}
    ran = set().union(*(line.kinds.tolist() for line in every))
    several = len({kinds[at].device for at in ran}) > 1
    positions = [
        (
            interner.position(f"{_DEVICE}{kind.device}" if several else HOST),
            interner.position(kind.op.name),
            interner.position(kind.op.op_type),
        )
        if at in ran
        else (0, 0, 0)
        for at, kind in enumerate(kinds)
    ]
    device, name, op_type = np.array(positions, dtype=np.int32).reshape(-1, 3).T
    for line in every:
        called_ns = line.start_ns + line.duration_ns
        until_ns = _until_ns(line, called_ns, starts_ns)
        columns.add(
            len(line.kinds),
            device=device[line.kinds],
            lane=interner.position(plane.lines[line.number].name),
            name=name[line.kinds],
            op_type=op_type[line.kinds],
            place=Place.HOST,
            start_ns=line.start_ns,
            duration_ns=np.maximum(until_ns, called_ns) - line.start_ns,
        )
    return bool(every)


class _Kind(NamedTuple):
    """What events of one kind execute, and the number of the device of the process."""

    op: HloOp
    device: int


class _Line(NamedTuple):
    """The instructions of a thread: their kinds, by number, and where each ended.

    `duration_ns` is that of the calls. An end is the line of the thread that tells it and when, -1
    and 0 if nothing does.
    """

    number: int
    kinds: Int64s
    end_line: Int64s
    end_ns: Int64s
    start_ns: Int64s
    duration_ns: Int64s


def _are_rows(ops: Sequence[HloOp]) -> Flags:
    """Return which ops are rows: not those that run others that are."""
    ran = {(op.program, op.instruction) for op in ops if not op.is_container}
    return np.array(
        [
            not op.is_container or not any((op.program, name) in ran for name in op.inside)
            for op in ops
        ],
        dtype=np.bool_,
    )


def _only(line: _Line, is_row: Flags) -> _Line:
    kept = is_row[line.kinds]
    return _Line(line.number, *(column[kept] for column in line[1:]))


def _lines(plane: Plane, programs: Programs) -> tuple[list[_Kind], list[_Line]]:
    """Return the kinds of events that are instructions, and the threads that ran them."""
    ends = _Ends(plane)
    ids = plane.stat_ids(_INSTRUCTION)
    of_instruction = [each for each in map(plane.stat_ids, _OF_INSTRUCTION) if each]
    kinds: list[_Kind] = []
    lines = []
    for number_of_line, line in enumerate(plane.lines):
        places = np.flatnonzero(line.have(ids, line.every()))
        alike, examples = line.alike(of_instruction, places)
        ordinals = plane.integers(number_of_line, examples, _ORDINAL).tolist()
        numbers = np.full(len(examples), -1)
        for at, stats in enumerate(line.stats(examples)):
            op = _op(stats, programs)
            if op is not None:
                numbers[at] = len(kinds)
                kinds.append(_Kind(op, ordinals[at]))
        is_row = numbers[alike] >= 0
        places = places[is_row]
        lines.append(
            _Line(
                number_of_line,
                numbers[alike[is_row]],
                *ends.of(number_of_line, places),
                *line.times_ns(places),
            )
        )
    return kinds, lines


def _until_ns(line: _Line, called_ns: Int64s, starts_ns: Mapping[int, Int64s]) -> Int64s:
    """Return until when instructions lasted, 0 if nothing tells; `called_ns` is when they returned.

    What waits for an instruction runs on the thread that ended it, and only then does that thread
    write that it ended.
    """
    lines, until_ns = line.end_line, line.end_ns
    for each in np.unique(lines[until_ns > called_ns]).tolist():
        begun_ns = starts_ns.get(each)
        if begun_ns is None:
            continue
        mine = np.flatnonzero((lines == each) & (until_ns > called_ns))
        following = np.searchsorted(begun_ns, called_ns[mine], side="right")
        has_next = following < len(begun_ns)
        next_ns = begun_ns[np.minimum(following, len(begun_ns) - 1)]
        until_ns[mine] = np.where(has_next, np.minimum(until_ns[mine], next_ns), until_ns[mine])
    return until_ns


_INSTRUCTION = "hlo_op"
# Which device of the process: one can divide its CPUs into several.
_ORDINAL, _DEVICE = "device_ordinal", "/device:CPU:"
_OF_INSTRUCTION = (_INSTRUCTION, "hlo_module", "program_id", _ORDINAL)
_END = "end: "
# The numbers that join the events of something asynchronous, and their types.
_BEGUN, _ENDED = ("_p", "_pt"), ("_c", "_ct")


class _Ends:
    """When asynchronous instructions ended, by what joins them with their begin."""

    def __init__(self, plane: Plane) -> None:
        """Find the events that tell it."""
        self._plane = plane
        # The rows of the columns, of which row 0 is no end.
        self._rows: dict[tuple[int, int], int] = {}
        lines, ends_ns = [-1], [0]
        for line, places in plane.named(lambda name: name.startswith(_END)):
            starts_ns, _ = plane.times_ns(line, places)
            for row, joint in enumerate(self._joints(line, places, _ENDED), len(lines)):
                self._rows[joint] = row
            lines += [line] * len(places)
            ends_ns += starts_ns.tolist()
        self._rows.pop(_UNCONNECTED, None)
        self._columns = int64s(lines), int64s(ends_ns)

    def of(self, line: int, places: Int64s) -> tuple[Int64s, Int64s]:
        """Return the line and the time of the ends of instructions, -1 and 0 where unknown."""
        joints = self._joints(line, places, _BEGUN) if self._rows else ()
        found = [self._rows.get(joint, 0) for joint in joints]
        rows = int64s(found) if found else np.zeros(len(places), dtype=np.int64)
        lines, ends_ns = self._columns
        return lines[rows], ends_ns[rows]

    def _joints(
        self, line: int, places: Int64s, names: tuple[str, str]
    ) -> Iterator[tuple[int, int]]:
        values, kinds = (self._plane.integers(line, places, name).tolist() for name in names)
        return zip(values, kinds, strict=True)


_UNCONNECTED = (0, 0)


def _op(stats: Mapping[str, Any], programs: Programs) -> HloOp | None:
    """Return the op of an event with these stats, None if it is no instruction. Any: values."""
    instruction = str(stats.get(_INSTRUCTION) or "")
    if not instruction:
        return None
    op_type = instruction.partition(".")[0]
    unknown = HloOp(instruction, op_type, is_container=False, instruction=instruction)
    return programs.op(stats) or unknown
