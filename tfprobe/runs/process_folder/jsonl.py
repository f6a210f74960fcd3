"""Read files of lines that a process appends to: whole lines only, whatever ended it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

T = TypeVar("T")
# Any: whatever JSON value the agent wrote.
Json = Mapping[str, Any]

# By so many bytes before the last line's end a file is known again: no two lines are alike.
_KNOWN_BY_BYTES = 256
# Of a file that grew by more since it was read, the last: a week of the busiest job writes less.
_MOST_BYTES = 1 << 28

# Parts of the names under which IPython compiles the cells of notebooks.
CELL_MARKS = (b"/ipykernel_", b"<ipython-input-")


class NewLines(NamedTuple):
    """Lines that are new in a file, and whether the file begins with them: forget older ones."""

    lines: list[bytes]
    is_from_start: bool


class Tail:
    """Read a file of lines again and again: each time the whole lines that are new in it.

    Cells of notebooks have their names in them instead of those of their files.
    A file that became shorter, or is another one, is read from its start, and one that is gone has
    no lines. `last_bytes` bounds what is read at once: of more, the last.
    """

    def __init__(
        self, path: Path, *, last_bytes: int | None = None, part_bytes: int | None = None
    ) -> None:
        """Begin at the start of the file, whether or not there is one yet.

        With `part_bytes` each call reads at most as many, until one has no lines: nothing is left
        out of a file of any size.
        """
        self._path = path
        self._part_bytes = part_bytes
        self._most_bytes = _MOST_BYTES if last_bytes is None else last_bytes
        self._seen: tuple[int, ...] = ()
        self._at = 0
        self._known_by = b""

    def read(self) -> NewLines:
        """Return the lines since the last call; none where the file is not ours to read."""
        try:
            found = os.stat(self._path)
        except (OSError, ValueError):  # ValueError: no file can have such a name
            return self._gone()
        try:
            seen = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
            if seen == self._seen:
                return NewLines([], False)
            # A pipe in its place must not hold the reader.
            descriptor = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK)
            try:
                is_same = seen[:2] == self._seen[:2]
                news = self._part(descriptor, is_same) or self._news(descriptor, is_same=is_same)
            finally:
                os.close(descriptor)
        except OSError:
            return self._gone()
        is_part = self._part_bytes is not None and bool(news.lines)
        self._seen = (*seen[:2], -1, -1) if is_part else seen  # the rest is news, too
        return news

    def _part(self, descriptor: int, is_same: bool) -> NewLines | None:
        """Return the next part of a file that has more; None where the rest is one part."""
        size = os.fstat(descriptor).st_size
        if self._part_bytes is None or size - self._at <= self._part_bytes:
            return None
        begun = is_same and self._at > 0 and self._is_known(descriptor)
        begin = self._at if begun else 0
        content = _pread(descriptor, self._part_bytes, begin)
        whole = content[: content.rfind(b"\n") + 1]
        if not whole:
            return None  # one line longer than a part
        self._at = begin + len(whole)
        self._known_by = whole[-_KNOWN_BY_BYTES:]
        return NewLines(_lines(self._with_cell_names(whole)), not begun)

    def _gone(self) -> NewLines:
        was_there = bool(self._seen)
        self._seen, self._at, self._known_by = (), 0, b""
        return NewLines([], was_there)

    def _news(self, descriptor: int, *, is_same: bool) -> NewLines:
        begun = is_same and self._at > 0 and self._is_known(descriptor)
        begin = self._at if begun else 0
        size = os.fstat(descriptor).st_size
        skipped = max(size - begin - self._most_bytes, 0)
        content = _pread(descriptor, size - begin - skipped, begin + skipped)
        # Whatever follows the last newline is a line the writer has not finished.
        whole = content[: content.rfind(b"\n") + 1]
        if whole:
            self._at = begin + skipped + len(whole)
            self._known_by = whole[-_KNOWN_BY_BYTES:]
        elif not begun:
            self._at, self._known_by = 0, b""
        if skipped:
            whole = whole[whole.find(b"\n") + 1 :]
        return NewLines(_lines(self._with_cell_names(whole)), not begun)

    def _with_cell_names(self, whole: bytes) -> bytes:
        if not any(mark in whole for mark in CELL_MARKS):
            return whole
        # Imported here: few runs are of notebooks.
        from tfprobe.runs.process_folder.cells import CellNames

        return CellNames(self._path.parent).renamed(whole)

    def _is_known(self, descriptor: int) -> bool:
        """Say whether what was read last is still there: the file grew, and is no other."""
        before = self._at - len(self._known_by)
        return _pread(descriptor, len(self._known_by), before) == self._known_by


class NewThings(NamedTuple, Generic[T]):
    """What the new lines of a file say, and whether it begins with them: forget what was before."""

    things: list[T]
    is_from_start: bool


class Log(Generic[T]):
    """What the lines of a file say that grows, and how many of them say nothing."""

    def __init__(
        self, path: Path, parse: Callable[[bytes], T | None], *, last_bytes: int | None = None
    ) -> None:
        """Begin with nothing read; a line that parses to None says nothing.

        `last_bytes` bounds what is read at once: of more, the last.
        """
        self._path = path
        self._last_bytes = last_bytes
        self._parse = parse
        self.restart()

    def restart(self) -> None:
        """Read the file from its start next time."""
        self._tail = Tail(self._path, last_bytes=self._last_bytes)
        self.bad_lines = 0

    def read(self) -> NewThings[T]:
        """Return what is new; each line is parsed once."""
        news = self._tail.read()
        if news.is_from_start:
            self.bad_lines = 0
        parsed = [self._parse(line) for line in news.lines]
        good = [each for each in parsed if each is not None]
        self.bad_lines += len(parsed) - len(good)
        return NewThings(good, news.is_from_start)


class Latest(Generic[T]):
    """The latest things of a file of lines that grows, and how many of its lines were none."""

    def __init__(
        self, path: Path, parse: Callable[[Json], T | None], *, keep: int, last_bytes: int
    ) -> None:
        """Keep the latest `keep`, of the last `last_bytes` at a time."""
        self._tail = Tail(path, last_bytes=last_bytes)
        self._parse = parse
        self._kept: tuple[T, ...] = ()
        self._keep = keep
        self.bad_lines = 0

    def read(self) -> tuple[T, ...]:
        """Return them, oldest first: the same tuple while nothing is new."""
        news = self._tail.read()
        if news.is_from_start:
            self._kept, self.bad_lines = (), 0
        parsed = [self._parsed(line) for line in news.lines]
        good = tuple(each for each in parsed if each is not None)
        self.bad_lines += len(parsed) - len(good)
        if good:
            self._kept = (*self._kept, *good)[-self._keep :]
        return self._kept

    def _parsed(self, line: bytes) -> T | None:
        fields = object_of(line)
        return None if fields is None else self._parse(fields)


def whole_lines(path: Path) -> list[bytes]:
    """Return the finished lines of a file; none where it is absent or not ours to read."""
    return Tail(path).read().lines


def object_of(line: bytes) -> Json | None:
    """Return the JSON object that a line is; None of one that is not."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def integer(fields: Json, key: str) -> int | None:
    """Return a whole number that fits 64 bits, as every time and count of ours does."""
    value = fields.get(key)
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if abs(value) < 1 << 63 else None


def number(fields: Json, key: str) -> float | None:
    """Return a number that is one: neither infinite nor NaN."""
    value = fields.get(key)
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    return float(value) if abs(value) < 1e300 else None


def text(fields: Json, key: str) -> str | None:
    """Return a text."""
    value = fields.get(key)
    return value if isinstance(value, str) else None


def _lines(whole: bytes) -> list[bytes]:
    return [line for line in whole.split(b"\n") if line.strip()]


def _pread(descriptor: int, count: int, at: int) -> bytes:
    """Return `count` bytes, fewer at the end: one read gives 2 GiB at most."""
    parts = []
    while count > 0 and (part := os.pread(descriptor, count, at)):
        parts.append(part)
        count, at = count - len(part), at + len(part)
    return b"".join(parts)
