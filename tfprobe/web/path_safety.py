"""Keep to one directory: which runs it has, and that none of their links lead out of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from tfprobe.errors import UnreadableInput
from tfprobe.runs.layout import RunFolder


def run_named(name: str, directory: Path) -> RunFolder | None:
    """Return the run of this name that a listing of the directory shows, or that it is itself.

    A name is compared, and never joined before: nothing in it can lead anywhere.
    """
    alone = RunFolder(directory)
    if alone.is_run():
        return alone if name == alone.id else None
    try:
        is_listed = name in os.listdir(directory)
    except OSError:
        return None
    run = RunFolder(directory / name)
    return run if is_listed and is_shown(run, directory) else None


def is_shown(run: RunFolder, directory: Path) -> bool:
    """Say whether this is a run of the directory, and none that a link of it leads to elsewhere."""
    return not run.id.startswith(".") and is_inside(run.root, directory) and run.is_run()


def check(run: RunFolder, directory: Path) -> None:
    """Raise UnreadableInput where a link in the run leads out of the directory.

    What is read of a run is shown, so a link is all that somebody who may write a run would need to
    have a file shown that only whoever looks may read.
    """
    for link in _links(run.root):
        if not is_inside(link, directory):
            raise UnreadableInput(
                f"Run {run.id} is not read: {link.relative_to(run.root)} in it is a link that leads"
                " out of the directory of runs.",
                hint="Remove the link, or serve a directory that it stays in.",
            )


def is_inside(path: Path, directory: Path) -> bool:
    """Say whether what a path leads to lies in the directory."""
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(directory))


def _links(root: Path) -> Iterator[Path]:
    """Give all links below a folder, and below what they lead to."""
    waiting, seen = [root], set()
    while waiting:
        folder = waiting.pop()
        place = os.path.realpath(folder)
        if place in seen:
            continue
        seen.add(place)
        for entry in _entries(folder):
            path = folder / entry.name
            if entry.is_symlink():
                yield path
            if os.path.isdir(path) if entry.is_symlink() else entry.is_dir():
                waiting.append(path)


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []
