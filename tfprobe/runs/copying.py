"""Copy a directory of a recording: regular files with their holes and times. Follows no link."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tfprobe.runs.layout import TEMPORARY_PREFIX

_CHUNK_BYTES = 1 << 20
# A process folder has two levels; what lies deeper than this is nothing of ours.
_DEEPEST = 20
# What a file system says that cannot tell where a file has holes.
_CANNOT_TELL = (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOTSUP)


def files_below(root: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield the regular files below a directory, without temporary ones. Raises OSError."""
    yield from _files(root, 0)


def copy_tree(source: Path, target: Path, told: Callable[[int], None]) -> None:
    """Copy what `files_below` finds to a new directory, private; `told` the bytes of each file.

    Raises OSError; what has been copied by then stays.
    """
    target.mkdir(0o700)
    for path, facts in files_below(source):
        name = path.relative_to(source)
        _make_directories(target, name.parent)
        copy_file(path, target / name)
        told(facts.st_size)


class SourceFailed(OSError):
    """What is to be copied cannot be read."""


def copy_file(source: Path, target: Path) -> None:
    """Copy a regular file to a new one, private, with its time and its holes.

    Raises OSError, which is SourceFailed where the source cannot be read.
    """
    with _reading():
        reader = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        facts = os.fstat(reader)
        writer = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            _copy_data(reader, writer, facts.st_size)
            os.utime(writer, ns=(facts.st_atime_ns, facts.st_mtime_ns))
        finally:
            os.close(writer)
    finally:
        os.close(reader)


def _files(directory: Path, depth: int) -> Iterator[tuple[Path, os.stat_result]]:
    with _reading(), os.scandir(directory) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    for entry in entries:
        if entry.name.startswith(TEMPORARY_PREFIX):
            continue
        facts = entry.stat(follow_symlinks=False)
        if stat.S_ISDIR(facts.st_mode) and depth < _DEEPEST:
            yield from _files(Path(entry.path), depth + 1)
        elif stat.S_ISREG(facts.st_mode):
            yield Path(entry.path), facts


def _make_directories(root: Path, below: Path) -> None:
    """Make the directories below a root, never that itself: if it has gone, so has what it held."""
    for part in below.parts:
        root /= part
        root.mkdir(mode=0o700, exist_ok=True)


def _copy_data(reader: int, writer: int, size: int) -> None:
    # steps.bin is as long as all the steps it could hold, and mostly holes.
    os.ftruncate(writer, size)
    for start, end in _stretches(reader, size):
        at = start
        while at < end:
            with _reading():
                chunk = os.pread(reader, min(_CHUNK_BYTES, end - at), at)
            if not chunk:
                return  # it became shorter meanwhile
            _write_all(writer, chunk, at)
            at += len(chunk)


@contextmanager
def _reading() -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        raise SourceFailed(exc.errno, exc.strerror) from exc


def _stretches(reader: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield from where to where a file may have data. Raises OSError."""
    at = 0
    while at < size:
        try:
            start = os.lseek(reader, at, os.SEEK_DATA)
        except OSError as exc:
            if exc.errno == errno.ENXIO:
                return  # only a hole is left
            if exc.errno not in _CANNOT_TELL:
                raise SourceFailed(exc.errno, exc.strerror) from exc
            yield at, size
            return
        end = min(os.lseek(reader, start, os.SEEK_HOLE), size)
        yield start, end
        at = end


def _write_all(writer: int, data: bytes, at: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(writer, view, at)
        view, at = view[written:], at + written
