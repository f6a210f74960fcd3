"""Read a file of words that its writer has mapped."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from tfprobe.errors import UnreadableInput
from tfprobe.runs.steps_layout import WORD_BYTES, Words


class WordFile:
    """A file of words, read with pread: mapping a live writer's pages could end in SIGBUS."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # A pipe in its place must not hold the reader.
        self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)

    def __enter__(self) -> WordFile:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def identity(self) -> tuple[int, int]:
        """Return what tells this file from another one at the same path."""
        found = os.fstat(self._descriptor)
        return found.st_dev, found.st_ino

    def size(self) -> int:
        """Return its length in bytes."""
        return os.fstat(self._descriptor).st_size

    def words(self, at: int, count: int) -> Words:
        """Return up to `count` words from word `at`: fewer at the end of the file.

        Raises UnreadableInput.
        """
        try:
            content = os.pread(self._descriptor, count * WORD_BYTES, at * WORD_BYTES)
        except OSError as exc:
            problem = f"{self.path} cannot be read: {exc.strerror or exc}."
            raise UnreadableInput(problem) from exc
        whole = len(content) // WORD_BYTES
        return np.frombuffer(content, dtype="<i8", count=whole).astype(np.int64, copy=False)

    def written_unix_ns(self) -> int:
        """Return when somebody last wrote to the file, by its file system."""
        return os.fstat(self._descriptor).st_mtime_ns

    def text(self, at: int, words: int) -> str:
        return self.words(at, words).tobytes().split(b"\0", 1)[0].decode("utf-8", "replace")


def opened(path: Path) -> WordFile:
    """Open a file of words.

    Raises UnreadableInput.
    """
    try:
        return WordFile(path)
    except OSError as exc:
        raise UnreadableInput(f"{path} cannot be opened: {exc.strerror or exc}.") from exc


def integers(words: Words) -> list[int]:
    """Return the words as numbers of Python."""
    found: list[int] = words.tolist()
    return found
