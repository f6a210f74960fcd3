"""Access files in directories that another user may have created, without following links.

A user named the directory itself, which may be a link. Below it each name is opened relative to its
parent directory, so that nobody can insert a link. A file gets its name once it is completely
written: a link, pipe or device of that name is replaced and never written to.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from tfprobe.runs.layout import TEMPORARY_PREFIX

# No protobuf message is longer, and captures and graphs are protobuf messages.
MOST_BYTES = (1 << 31) - 1
# The system reads ahead by itself after the beginning of a file.
_BEGINNING_BYTES = 4 << 20


def content_of(path: Path, *, most_bytes: int = MOST_BYTES) -> bytes:
    """Return the content of a regular file of at most `most_bytes`.

    Raises OSError for anything else, including names that no file can have.
    """
    descriptor = _opened(path)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "it is no regular file")
        if found.st_size > most_bytes:
            raise OSError(errno.EFBIG, f"it has more than {most_bytes:,} bytes")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            # read(n) allocates n bytes up front; in /proc a size of 0 means nothing.
            return file.read(found.st_size or most_bytes)
    finally:
        os.close(descriptor)


def foresee(path: Path) -> None:
    """Have the system read the beginning of a file in the background, if it can.

    Errors are ignored here: the actual read will report them.
    """
    if not hasattr(os, "posix_fadvise"):
        return
    try:
        descriptor = _opened(path)
    except OSError:
        return
    try:
        os.posix_fadvise(descriptor, 0, _BEGINNING_BYTES, os.POSIX_FADV_WILLNEED)
    except OSError:
        pass  # a pipe, or a file system without readahead
    finally:
        os.close(descriptor)


def _opened(path: Path) -> int:
    try:
        # Opening a pipe would block until somebody opens it for writing.
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except ValueError as exc:
        raise OSError(errno.ENOENT, "no file has such a name") from exc


_ROOT = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_BELOW = _ROOT | os.O_NOFOLLOW
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
# Paths below this one start at the open directory, wherever its own path leads by now.
_OPEN = Path("/proc/self/fd")


@contextmanager
def directory(
    root: Path, path: Path, *, make: bool = False, private: bool = True
) -> Iterator[Path]:
    """Yield a path that refers to the directory `path`, at or below `root`, while it is open.

    With `make`, missing directories below `root` are created; `root` must exist.

    Raises OSError, also if a link is in the way.
    """
    names = path.relative_to(root).parts
    if ".." in names:
        raise OSError(errno.EINVAL, "it leads out of its directory", str(path))
    descriptor = os.open(root, _ROOT)
    try:
        for name in names:
            if make:
                _make(descriptor, name, private=private)
            below = _entered(descriptor, name)
            os.close(descriptor)
            descriptor = below
        yield path_of(descriptor)
    finally:
        os.close(descriptor)


def opened(root: Path, path: Path, flags: int = os.O_RDONLY) -> int:
    """Open a regular file below `root`; return its descriptor.

    A file that is opened for writing must have no further hard link, which could be a file
    elsewhere.

    Raises OSError for anything else; never blocks on a pipe.
    """
    with directory(root, path.parent) as place:
        try:
            descriptor = os.open(place / path.name, flags | _FILE, 0o600)
        except OSError as exc:
            exc.filename = str(path)
            raise
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", str(path))
        if flags & (os.O_WRONLY | os.O_RDWR) and found.st_nlink > 1:
            raise OSError(errno.EMLINK, "it is a file of several names (hard links)", str(path))
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def path_of(descriptor: int) -> Path:
    """Return a path that refers to exactly this open file while it is open."""
    return _OPEN / str(descriptor)


def content(root: Path, path: Path, *, most_bytes: int = MOST_BYTES) -> bytes:
    """Return the content of a regular file of at most `most_bytes` below `root`. Raises OSError."""
    descriptor = opened(root, path)
    try:
        return content_of(path_of(descriptor), most_bytes=most_bytes)
    finally:
        os.close(descriptor)


def is_file(root: Path, path: Path) -> bool:
    """Return whether a path is a regular file below `root`, with no link on the way to it."""
    try:
        with directory(root, path.parent) as place:
            return stat.S_ISREG(os.lstat(place / path.name).st_mode)
    except OSError:
        return False


def is_directory(root: Path, path: Path) -> bool:
    """Return whether a path is a directory below `root`, with no link on the way to it."""
    try:
        with directory(root, path):
            return True
    except OSError:
        return False


def write(root: Path, path: Path, content: bytes, *, private: bool = True) -> None:
    """Write a file below `root` atomically, creating missing parent directories.

    Raises OSError.
    """
    with (
        directory(root, path.parent, make=True, private=private) as place,
        replacing(place / path.name, mode=0o600 if private else 0o666) as file,
    ):
        file.write(content)


def unlink(root: Path, path: Path) -> None:
    """Remove a file below `root` if it exists. Raises OSError."""
    with directory(root, path.parent) as place:
        (place / path.name).unlink(missing_ok=True)


@contextmanager
def replacing(path: Path, mode: int = 0o666) -> Iterator[BinaryIO]:
    """Yield a new file that gets its name once it is complete; on error nothing is left of it.

    Its temporary name cannot be guessed, so nobody can place a link there. Raises OSError.
    """
    unfinished = temporary(path)
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


def temporary(path: Path) -> Path:
    """Return a name in the same directory that readers ignore and that nobody can guess."""
    return path.with_name(f"{TEMPORARY_PREFIX}{secrets.token_hex(8)}")


def _make(parent: int, name: str, *, private: bool) -> None:
    try:
        os.mkdir(name, 0o700 if private else 0o777, dir_fd=parent)
    except FileExistsError:
        pass  # opened next, whatever it is


def _entered(parent: int, name: str) -> int:
    """Open a directory by its name in another directory."""
    try:
        return os.open(name, _BELOW, dir_fd=parent)
    except NotADirectoryError as exc:
        # Linux reports this for a link to a directory, too.
        raise NotADirectoryError(exc.errno, "it is a link, or no directory", name) from exc
