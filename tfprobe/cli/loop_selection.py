"""Choose what `transfers` and `memory` show: the traced steps of one loop, in all processes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tfprobe.cli import common
from tfprobe.cli.read.views import chosen_loop
from tfprobe.errors import UsageError

if TYPE_CHECKING:
    from tfprobe.profile.graph import TracedLoop
    from tfprobe.profile.profile import Loop, Profile


@dataclass(frozen=True, slots=True)
class LoopSelection:
    """Sampled steps of one kind and name of loop.

    `profile` holds their captures alone; `whole` all that was read. `sampled` are the steps with
    their graphs, one for each process that ran the loop.
    """

    source: str
    profile: Profile
    whole: Profile
    sampled: tuple[TracedLoop, ...]

    @property
    def loop(self) -> Loop | None:
        """Return the loop in its first process, None where no step was sampled."""
        return self.sampled[0].loop if self.sampled else None


def read(
    run: str, output: str | None, *, loop: str, rank: int | None, needs_steps: bool = True
) -> LoopSelection:
    """Read RUN, a run or a file, and choose the loop with `loop` in its name, or with most time.

    Raises NoAnswer where no step of it was sampled and it `needs_steps`, or where no loop has that
    name; UnreadableInput and UsageError as it must.
    """
    if common.is_file(run):
        if loop or rank is not None:
            raise UsageError(f"--loop and --rank apply to runs, and {run} is a file.")
        return _of_file(run)
    from tfprobe.profile.reader.run_reader import load
    from tfprobe.profile.reader.traced_steps import sampled
    from tfprobe.runs.liveness import this_machine

    folder = common.chosen_run(run, output)
    with common.progress("Reading captures") as watch:
        profile = load(folder, this_machine(), rank=rank, watch=watch)
        alike = _alike(profile, loop, needs_steps=needs_steps)
        found = [sampled(folder, profile, each, with_shapes=True) for each in alike]
    common.warn_of_problems(profile)
    with_steps = tuple(each for each in found if each.captures)
    captures = tuple(capture for step in with_steps for capture in step.captures)
    # In the order of the whole profile, in which their rows are.
    kept = tuple(sorted(captures, key=lambda capture: capture.index))
    return LoopSelection(folder.id, profile.only(kept), profile, with_steps)


def _alike(profile: Profile, loop: str, *, needs_steps: bool) -> list[Loop]:
    """Return the chosen loop in all of its processes, none where no step was sampled."""
    if not needs_steps and not loop and not profile.captures:
        return []
    chosen = chosen_loop(profile, loop)
    key = (chosen.kind, chosen.name)
    return [each for each in profile.loops if (each.kind, each.name) == key]


def _of_file(path: str) -> LoopSelection:
    from tfprobe.profile.reader.file import whole_file

    with common.progress(f"Reading {path}"):
        profile, found = whole_file(Path(path))
    return LoopSelection(path, profile, profile, (found,))
