"""Find the programs of XLA that ran in a capture, by the numbers that their events have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tfprobe.errors import UnreadableInput
from tfprobe.formats.hlo_module import read_module
from tfprobe.formats.schema import parse
from tfprobe.formats.xspace.plane import HOST, is_gpu, stat_values
from tfprobe.formats.xspace.programs import Programs
from tfprobe.profile.hlo import RanProgram

_NUMBER, _INSTRUCTION = "program_id", "hlo_op"


def ran_programs(content: bytes) -> tuple[RanProgram, ...]:
    """Return the programs whose instructions ran, as far as the capture contains them.

    Raises UnreadableInput if the bytes are not an XSpace.
    """
    space = parse(content, "tfprobe.xplane.XSpace")
    numbers = {number for plane in space.planes for number in _numbers(plane)}
    programs = Programs(space.planes) if numbers else Programs(())
    found = (_ran(programs, key) for key in sorted(programs.modules()) if key[1] in numbers)
    return tuple(program for program in found if program is not None)


def _numbers(plane: Any) -> Iterator[int]:
    """Yield the numbers of the programs that a plane has events of. Any: an XPlane."""
    if plane.name != HOST and not is_gpu(plane.name):
        return
    ids = {at for at, each in plane.stat_metadata.items() if each.name == _NUMBER}
    if not ids:
        return
    # On some devices, the numbers are with the names of events.
    for metadata in plane.event_metadata.values():
        if any(stat.metadata_id in ids for stat in metadata.stats):
            number = stat_values(plane, metadata.stats).get(_NUMBER)
            yield from [number] if isinstance(number, int) else []
    yield from {
        stat.uint64_value or stat.int64_value
        for line in plane.lines
        for event in line.events
        for stat in event.stats
        if stat.metadata_id in ids
    }


def _ran(programs: Programs, key: tuple[str, int]) -> RanProgram | None:
    try:
        module = read_module(programs.content(key))
    except UnreadableInput:
        return None  # its instructions have no names but their own, either
    names = {}
    for computation in module.computations.values():
        for instruction in computation.instructions:
            op = programs.op(
                {"hlo_module": key[0], _NUMBER: key[1], _INSTRUCTION: instruction.name}
            )
            if op is not None:
                names[op.name] = instruction
    return RanProgram(key[1], module, names)
