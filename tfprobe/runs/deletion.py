"""Delete a directory tree: count what that frees, and never leave the tree."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from tfprobe.runs.sizes import BLOCK_BYTES

# A run has six levels; each takes a descriptor while it is deleted.
DEEPEST = 100
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Deletion:
    """What a deletion gave back, and the first thing that stood in its way, if any did."""

    freed_bytes: int
    problem: str | None


def delete(path: Path) -> Deletion:
    """Delete a file, or a directory with all in it; what is gone already is no problem.

    Every step starts at an open directory and follows no link, whoever moves things meanwhile; what
    another file system is mounted on stays.
    """
    tally = _Tally()
    try:
        device = path.lstat().st_dev
    except OSError:
        return Deletion(0, None)
    _delete(os.fspath(path), None, tally, _Level(device, 0))
    return Deletion(tally.freed_bytes, tally.problem)


@dataclass(frozen=True, slots=True)
class _Level:
    device: int
    depth: int


class _Tally:
    """What was freed so far, and the first problem."""

    def __init__(self) -> None:
        self.freed_bytes = 0
        self.problem: str | None = None

    def freed(self, facts: os.stat_result) -> None:
        """Count what was unlinked: of a file with further names nothing was freed."""
        if stat.S_ISDIR(facts.st_mode) or facts.st_nlink == 1:
            self.freed_bytes += facts.st_blocks * BLOCK_BYTES

    def stopped(self, name: str, why: OSError | str) -> None:
        """Keep the first thing that could not be deleted."""
        if isinstance(why, FileNotFoundError):
            return
        text = why if isinstance(why, str) else (why.strerror or str(why))
        self.problem = self.problem or f"{name} cannot be deleted: {text}"


def _delete(name: str, parent: int | None, tally: _Tally, level: _Level) -> None:
    try:
        facts = os.stat(name, dir_fd=parent, follow_symlinks=False)
        if stat.S_ISDIR(facts.st_mode):
            _empty(name, parent, tally, level)
            os.rmdir(name, dir_fd=parent)
        else:
            os.unlink(name, dir_fd=parent)
        tally.freed(facts)
    except OSError as exc:
        tally.stopped(name, exc)


def _empty(name: str, parent: int | None, tally: _Tally, level: _Level) -> None:
    descriptor = os.open(name, _DIRECTORY, dir_fd=parent)
    try:
        if os.fstat(descriptor).st_dev != level.device:
            tally.stopped(name, "another file system is mounted on it")
        elif level.depth >= DEEPEST:
            tally.stopped(name, "it lies deeper than anything of ours")
        else:
            below = _Level(level.device, level.depth + 1)
            for entry in os.listdir(descriptor):
                _delete(entry, descriptor, tally, below)
    finally:
        os.close(descriptor)
