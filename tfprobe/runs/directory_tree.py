"""Copy, delete and measure the directory trees of recordings. Follows no links."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tfprobe.runs.layout import TEMPORARY_PREFIX

_CHUNK_BYTES = 1 << 20
# A process folder has two levels; anything deeper than this is not ours.
_DEEPEST = 20
# The errors of file systems that cannot report the holes of a file.
_CANNOT_TELL = (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOTSUP)


def files_below(root: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield the regular files below a directory except temporary ones. Raises OSError."""
    yield from _files(root, 0)


def copy_tree(source: Path, target: Path, watch: Callable[[int], None]) -> None:
    """Copy what `files_below` yields to a new private directory; `watch` gets each file's bytes.

    Raises OSError; what has been copied by then stays.
    """
    target.mkdir(0o700)
    for path, facts in files_below(source):
        name = path.relative_to(source)
        _make_directories(target, name.parent)
        copy_file(path, target / name)
        watch(facts.st_size)


class SourceFailed(OSError):
    """A file that is to be copied cannot be read."""


def copy_file(source: Path, target: Path) -> None:
    """Copy a regular file to a new private one, keeping its modification time and its holes.

    Raises OSError; SourceFailed if the source cannot be read.
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
    """Create the directories below a root but never the root itself, which may be removed."""
    for part in below.parts:
        root /= part
        root.mkdir(mode=0o700, exist_ok=True)


def _copy_data(reader: int, writer: int, size: int) -> None:
    # steps.bin is sized for all the steps it could hold, and consists mostly of holes.
    os.ftruncate(writer, size)
    for start, end in _stretches(reader, size):
        at = start
        while at < end:
            with _reading():
                chunk = os.pread(reader, min(_CHUNK_BYTES, end - at), at)
            if not chunk:
                return  # the file was truncated in the meantime
            _write_all(writer, chunk, at)
            at += len(chunk)


@contextmanager
def _reading() -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        raise SourceFailed(exc.errno, exc.strerror) from exc


def _stretches(reader: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges of a file that may contain data. Raises OSError."""
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


# A run has six levels; each takes a file descriptor while it is being deleted.
DEEPEST = 100
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Deletion:
    """The bytes that a deletion freed, and its first problem, if any."""

    freed_bytes: int
    problem: str | None


def delete(path: Path) -> Deletion:
    """Delete a file, or a directory with all its contents; what is already gone is not a problem.

    Every operation is relative to an open directory and follows no links, even if somebody moves
    files meanwhile. Mount points of other file systems are not removed.
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
    """The bytes freed so far, and the first problem."""

    def __init__(self) -> None:
        self.freed_bytes = 0
        self.problem: str | None = None

    def freed(self, facts: os.stat_result) -> None:
        """Count an unlinked file; one with further hard links freed nothing."""
        if stat.S_ISDIR(facts.st_mode) or facts.st_nlink == 1:
            self.freed_bytes += facts.st_blocks * BLOCK_BYTES

    def stopped(self, name: str, why: OSError | str) -> None:
        """Record the problem if it is the first."""
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


# The unit of st_blocks, whatever the file system's own blocks are (POSIX, sys/stat.h).
BLOCK_BYTES = 512


def disk_bytes(root: Path) -> int:
    """Return the disk space that a directory tree occupies, counting allocated blocks only.

    Links are not followed, a file with several names counts once, and files that vanish during the
    scan or that this user may not access are left out.
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
        return  # vanished, or not readable by this user


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
