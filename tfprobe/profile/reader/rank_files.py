"""Read the traces of the ranks of a job, each a file of its own, as PyTorch's profiler writes them.

A trace says of which rank it is. Times are of the wall clocks of the machines.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from tfprobe.errors import NoAnswer, UnreadableInput
from tfprobe.formats.kineto import is_kineto
from tfprobe.profile.profile import Problem, Profile
from tfprobe.profile.reader.file import FileKind, contents, file_profile
from tfprobe.profile.reader.service_trace import gaps_of

_NAME = re.compile(r"rank[-_. ]?(\d{1,6})", re.IGNORECASE)
_SUFFIXES = (".json", ".json.gz")
# Behind the names of threads, of which there may be many.
_BEGINNING_BYTES = 2**22
# Every rank has the same loop, which its file does not name.
_KIND, _LOOP = "traced", "steps"


def trace_files(directory: Path) -> tuple[Path, ...]:
    """Return the traces of PyTorch's profiler in a directory, by name.

    Raises UnreadableInput if the directory cannot be read.
    """
    try:
        paths = sorted(path for path in directory.iterdir() if path.name.endswith(_SUFFIXES))
    except OSError as exc:
        raise UnreadableInput(f"{directory} cannot be read: {exc.strerror or exc}.") from exc
    return tuple(path for path in paths if path.is_file() and _is_trace(path))


def _is_trace(path: Path) -> bool:
    """Return whether a file is such a trace, mostly by its beginning, or cannot be read."""
    try:
        with path.open("rb") as file:
            is_packed = file.read(2) == b"\x1f\x8b"
        with gzip.open(path) if is_packed else path.open("rb") as file:
            if is_kineto(file.read(_BEGINNING_BYTES)):
                return True
        return contents(path).kind is FileKind.KINETO
    except (OSError, EOFError, zlib.error, UnreadableInput):
        return True  # it is named when it is read


def rank_profiles(
    paths: Sequence[Path], watch: Callable[[int, int], None] | None = None
) -> tuple[tuple[Profile, ...], tuple[Problem, ...]]:
    """Return the profile of each rank by rank, and the files that cannot be read.

    Raises NoAnswer if none can.
    """
    profiles, problems = [], []
    for read, path in enumerate(paths, start=1):
        try:
            profiles.append(_profile(path))
        except UnreadableInput as exc:
            problems.append(Problem(path.name, f"This trace was skipped: {exc.problem}"))
        if watch is not None:
            watch(read, len(paths))
    if not profiles:
        hint = " ".join(f"{problem.where}: {problem.what}" for problem in problems)
        raise NoAnswer("There is no trace of a rank to compare.", hint=hint)
    return tuple(_in_order(profiles)), tuple(problems)


def _in_order(profiles: Iterable[Profile]) -> Iterator[Profile]:
    """Yield profiles by rank, and traces of one rank by time."""

    def key(profile: Profile) -> tuple[int, int, str]:
        process = profile.processes[0]
        return (
            2**31 if process.rank is None else process.rank,
            process.started_unix_ns,
            profile.run.id,
        )

    yield from sorted(profiles, key=key)


def _profile(path: Path) -> Profile:
    found = file_profile(path)
    (process,), (loop,) = found.processes, found.loops
    named = _NAME.search(path.name)
    rank = process.rank if process.rank is not None else int(named[1]) if named else None
    captures = found.captures
    starts_ns = [capture.start_ns for capture in captures]
    return replace(
        found,
        processes=(
            replace(
                process,
                rank=rank,
                program=path.name,
                title="" if rank is not None else path.name,
                started_unix_ns=min(starts_ns, default=0),
            ),
        ),
        loops=(
            replace(
                loop,
                kind=_KIND,
                name=_LOOP,
                gaps=gaps_of(captures),
                # All steps were traced alike: none is an outlier next to untraced ones.
                recent=replace(loop.recent, sampled=np.zeros_like(loop.recent.sampled)),
            ),
        ),
    )
