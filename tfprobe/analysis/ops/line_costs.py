"""What each line of each file of Python costs: what it made, and what was made below it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tfprobe.analysis.core.source_lines import innermost, is_of_library
from tfprobe.analysis.ops.code_view import Line
from tfprobe.analysis.ops.cost_stacks import scope_stacks
from tfprobe.analysis.ops.cost_tree import Shown
from tfprobe.analysis.ops.costs import Int64s, nothing
from tfprobe.profile.graph import Frame


@dataclass(slots=True, eq=False)
class LineCost:
    """A line of a file. `own` is what it made itself; `total` also what was made by what it called.

    A line of the job made what libraries made for it: what stands nearest to the op is rarely
    what one can change.
    """

    line: int
    function: str
    own: Int64s = field(default_factory=nothing)
    total: Int64s = field(default_factory=nothing)


@dataclass(slots=True, eq=False)
class FileCost:
    """A file, with its lines by number. What several of its lines led to counts once in `total`."""

    file: str
    is_library: bool
    own: Int64s = field(default_factory=nothing)
    total: Int64s = field(default_factory=nothing)
    lines: dict[int, LineCost] = field(default_factory=dict)


def files(shown: Shown) -> list[FileCost]:
    """Return the files of a code view of which everything is shown, by name."""
    found: dict[str, FileCost] = {}
    for stack in scope_stacks(shown):
        own = stack.branches[-1].own
        frames = [each.frame for each in stack.branches if isinstance(each, Line) and each.frame]
        for line in _lines(found, frames):
            line.total += own
        # Not once for each frame: a function that calls itself is there several times.
        for file in {frame.file for frame in frames}:
            found[file].total += own
        maker = innermost(frames)
        if maker is not None:
            found[maker.file].own += own
            found[maker.file].lines[maker.line].own += own
    return [found[name] for name in sorted(found)]


def _lines(found: dict[str, FileCost], frames: Iterable[Frame]) -> Iterable[LineCost]:
    """Return the lines of these frames, each once; add those that are not there yet."""
    for frame in {(each.file, each.line): each for each in frames}.values():
        file = found.get(frame.file)
        if file is None:
            file = found[frame.file] = FileCost(frame.file, is_of_library(frame.file))
        yield file.lines.setdefault(frame.line, LineCost(frame.line, frame.function))
