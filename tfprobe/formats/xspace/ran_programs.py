"""Read whole programs of XLA from a capture: what their instructions compute, and their memory."""

from __future__ import annotations

from collections.abc import Iterable

from tfprobe.errors import UnreadableInput
from tfprobe.formats.xspace.hlo_module import read_module
from tfprobe.formats.xspace.programs import ProgramKey, Programs, metadata_planes
from tfprobe.profile.hlo import RanProgram


def ran_programs(content: bytes, keys: Iterable[ProgramKey]) -> tuple[RanProgram, ...]:
    """Return these programs, as far as an XSpace contains them.

    Raises UnreadableInput if the bytes are not an XSpace.
    """
    programs = Programs(metadata_planes(content))
    known = set(programs.modules())
    found = (_ran(programs, key) for key in sorted(known.intersection(keys)))
    return tuple(program for program in found if program is not None)


def _ran(programs: Programs, key: ProgramKey) -> RanProgram | None:
    try:
        module = read_module(programs.content(key))
    except UnreadableInput:
        return None  # its instructions have no names but their own, either
    names = {}
    for computation in module.computations.values():
        for instruction in computation.instructions:
            stats = {"hlo_module": key[0], "program_id": key[1], "hlo_op": instruction.name}
            op = programs.op(stats)
            if op is not None:
                names[op.name] = instruction
    return RanProgram(key[1], module, names)
