"""A loop in all of its processes: its traced steps there, and the part of the profile they are."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from tfprobe.analysis.core.source_lines import Origins
from tfprobe.errors import Missing
from tfprobe.profile.graph import TracedLoop
from tfprobe.profile.profile import Loop, Process, Profile
from tfprobe.profile.reader.traced_steps import captures_of
from tfprobe.web.opened import OpenRun, Reading


@dataclass(frozen=True, slots=True)
class Alike:
    """The traced steps of one kind and name of loop: `profile` holds their captures alone."""

    profile: Profile
    sampled: tuple[TracedLoop, ...]
    origins: Origins


def alike(run: OpenRun, loop: Loop) -> Alike | Missing:
    """Return the traced steps of all loops of this kind and name in one group of processes."""
    group = run.profile.processes[loop.process].group
    return run.made(("alike", loop.kind, loop.name, group), lambda: _alike(run, loop))


def _alike(run: OpenRun, loop: Loop) -> Alike | Missing:
    same = loops_alike(run, loop)
    answers = [run.sampled(each, with_shapes=True) for each in same]
    traced = tuple(each for each in answers if not isinstance(each, Missing) and each.captures)
    if not traced:
        return Missing("no step of this loop was traced")
    captures = tuple(
        sorted((capture for one in traced for capture in one.captures), key=lambda each: each.index)
    )
    return Alike(run.profile.only(captures), traced, Origins(traced))


def loops_alike(run: Reading, loop: Loop) -> tuple[Loop, ...]:
    """Return the loop in all processes that do it together."""
    processes = run.profile.processes
    key = (loop.kind, loop.name, processes[loop.process].group)
    return tuple(
        each
        for each in run.profile.loops
        if (each.kind, each.name, processes[each.process].group) == key
    )


def chosen_document(run: OpenRun, loop: Loop) -> dict[str, Any]:
    """Return which loop a page is of, and which there are. Any: see docs/web.md."""
    return {
        "work": run.place(loop),
        "works": run.made("works", lambda: loops_document(run)),
        "about": {
            "kind": loop.kind,
            "name": loop.name,
            "count": loop.count,
            "sampled": len(captures_of(loop, run.profile)),
            **process_document(run.profile.processes[loop.process]),
        },
    }


def process_document(process: Process) -> dict[str, Any]:
    """Return which process it is: `process` is its place in the profile."""
    return {
        "process": process.index,
        "host": process.host,
        "pid": process.pid or None,
        "rank": process.rank,
        "role": process.role,
        "program": process.title or None,
    }


# Nobody chooses among more by their names; all others stay reachable by `work=`.
MOST_LOOPS = 500
# Names of functions and fetches may be as long as somebody wants.
_NAME_CHARACTERS = 200


def loops_document(run: Reading) -> list[dict[str, Any]]:
    """Return the loops with most time, longest first: `at` is what `work=` names.

    `captures` are its traced steps, as the job counted them if captures are not read (`early`).
    Any: JSON values.
    """
    profile = run.profile
    read = Counter((capture.process, capture.loop) for capture in profile.captures)
    places = {id(loop): at for at, loop in enumerate(profile.loops)}
    return [
        {
            "at": places[id(loop)],
            "kind": loop.kind,
            "name": loop.name[:_NAME_CHARACTERS],
            "process": loop.process,
            "process_label": _label(profile.processes[loop.process]),
            "total_ns": loop.times.sum_ns,
            "captures": read[loop.process, loop.index] if read else loop.sampled,
        }
        for loop in run.loops()[:MOST_LOOPS]
    ]


def _label(process: Process) -> str:
    named = f"{process.host} {process.label}"
    return named if process.rank is None else f"rank {process.rank}, {named}"
