"""The rows of the table `programs`: what XLA planned for the programs that ran in captures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from tfprobe.analysis.memory.program_memory import program_memory
from tfprobe.analysis.ops.flops.hlo import ProgramFlops
from tfprobe.errors import Missing
from tfprobe.profile.hlo import RanProgram
from tfprobe.profile.profile import Profile
from tfprobe.profile.reader.traced_steps import programs_of
from tfprobe.runs.layout import ProcessFolder
from tfprobe.runs.safe_files import content_of

_OF_MEMORY = (
    "bytes",
    "argument_bytes",
    "output_bytes",
    "donated_bytes",
    "temporary_bytes",
    "constant_bytes",
    "peak_instruction",
)


# Any, here and below: the value of a cell; None if unknown.
def program_rows(profile: Profile, process: ProcessFolder) -> tuple[tuple[Any, ...], ...]:
    """Return the rows of a process, without the columns of its key."""
    captures = profile.captures
    if not any(capture.programs for capture in captures):
        return ()
    ran = programs_of(captures, lambda file: content_of(process.capture(file)))
    known = {(each.module.name, each.number): tuple(_facts(each)) for each in ran}
    counts: Counter[tuple[int | None, tuple[str, int]]] = Counter(
        (None if isinstance(capture.loop, Missing) else capture.loop, key)
        for capture in captures
        for key in dict.fromkeys(capture.programs)
        if key in known
    )
    order = sorted(counts, key=lambda pair: (-1 if pair[0] is None else pair[0], pair[1]))
    return tuple((loop, *key, counts[loop, key], *known[key]) for loop, key in order)


def _facts(program: RanProgram) -> Iterator[Any]:
    flops = ProgramFlops(program.module).total()
    yield None if isinstance(flops, Missing) else flops
    memory = program_memory(program)
    for name in _OF_MEMORY:
        yield None if isinstance(memory, Missing) else getattr(memory, name)
