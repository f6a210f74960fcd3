"""Measure what a directory holds on disk."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

# The unit of st_blocks, whatever the file system's own blocks are (POSIX, sys/stat.h).
BLOCK_BYTES = 512


def disk_bytes(root: Path) -> int:
    """Return the bytes that a directory and all in it occupy: of a sparse file what is allocated.

    Links are not followed, a file of several names counts once, and what vanishes meanwhile or is
    closed to this user does not count.
    """
    seen: set[tuple[int, int]] = set()
    waiting = [os.fspath(root)]
    total = _occupied(root)
    while waiting:
        for path, facts in _entries(waiting.pop()):
            if stat.S_ISDIR(facts.st_mode):
                waiting.append(path)
            elif facts.st_nlink > 1:
                if (facts.st_dev, facts.st_ino) in seen:
                    continue
                seen.add((facts.st_dev, facts.st_ino))
            total += facts.st_blocks * BLOCK_BYTES
    return total


def _entries(directory: str) -> Iterator[tuple[str, os.stat_result]]:
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                facts = _facts(entry)
                if facts is not None:
                    yield entry.path, facts
    except OSError:
        return  # vanished, or not ours to read


def _facts(entry: os.DirEntry[str]) -> os.stat_result | None:
    try:
        return entry.stat(follow_symlinks=False)
    except OSError:
        return None


def _occupied(path: Path) -> int:
    try:
        return path.lstat().st_blocks * BLOCK_BYTES
    except OSError:
        return 0
