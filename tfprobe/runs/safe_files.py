"""Reach what lies in a directory that a stranger may have made: no link in it is followed.

The directory itself was named by a person, and may be a link. Below it each name is opened from the
directory before it, so that nobody can put a link in between. A file that is written takes its name
when it is whole: a link, a pipe or a device of that name is replaced and never written to.
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

# No message of protobuf is longer, and captures and graphs are such messages.
MOST_BYTES = (1 << 31) - 1
# What follows the beginning of a file the system reads ahead by itself.
_BEGINNING_BYTES = 4 << 20


def content_of(path: Path, *, most_bytes: int = MOST_BYTES) -> bytes:
    """Return what is in a regular file of at most `most_bytes`.

    Raises OSError for all else, a name that no file can have among it.
    """
    descriptor = _opened(path)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "it is no regular file")
        if found.st_size > most_bytes:
            raise OSError(errno.EFBIG, f"it has more than {most_bytes:,} bytes")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            # Room for all that may come would be made first; a size of 0 tells nothing, in /proc.
            return file.read(found.st_size or most_bytes)
    finally:
        os.close(descriptor)


def foresee(path: Path) -> None:
    """Let the system read the beginning of a file while we do something else, if it can.

    Whatever is wrong with the file is told by who reads it.
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
        pass  # a pipe, or a file system that cannot
    finally:
        os.close(descriptor)


def _opened(path: Path) -> int:
    try:
        # Opening a pipe would wait for whoever writes to it.
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except ValueError as exc:
        raise OSError(errno.ENOENT, "no file has such a name") from exc


_ROOT = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_BELOW = _ROOT | os.O_NOFOLLOW
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
# Paths below such a name start at the open directory, whatever its own path leads to by now.
_OPEN = Path("/proc/self/fd")


@contextmanager
def directory(
    root: Path, path: Path, *, make: bool = False, private: bool = True
) -> Iterator[Path]:
    """Give a path that stands for the directory `path` at or below `root` while it is open.

    With `make`, what is missing below `root` is made; `root` must be there.

    Raises OSError, also where a link is in the way.
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

    One to be written may have no further name, which could be that of a file elsewhere.

    Raises OSError for all else; nothing waits for a pipe.
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
    """Return a path that leads to an open file, and to no other one, while it is open."""
    return _OPEN / str(descriptor)


def content(root: Path, path: Path, *, most_bytes: int = MOST_BYTES) -> bytes:
    """Return what is in a regular file below `root` of at most `most_bytes`. Raises OSError."""
    descriptor = opened(root, path)
    try:
        return content_of(path_of(descriptor), most_bytes=most_bytes)
    finally:
        os.close(descriptor)


def is_file(root: Path, path: Path) -> bool:
    """Say whether a path is that of a regular file below `root`, with no link on the way to it."""
    try:
        with directory(root, path.parent) as place:
            return stat.S_ISREG(os.lstat(place / path.name).st_mode)
    except OSError:
        return False


def is_directory(root: Path, path: Path) -> bool:
    """Say whether a path is that of a directory below `root`, with no link on the way to it."""
    try:
        with directory(root, path):
            return True
    except OSError:
        return False


def write(root: Path, path: Path, content: bytes, *, private: bool = True) -> None:
    """Write a file below `root`, whole or not at all, and what is missing above it.

    Raises OSError.
    """
    with (
        directory(root, path.parent, make=True, private=private) as place,
        replacing(place / path.name, mode=0o600 if private else 0o666) as file,
    ):
        file.write(content)


def unlink(root: Path, path: Path) -> None:
    """Remove a file below `root`, if it is there. Raises OSError."""
    with directory(root, path.parent) as place:
        (place / path.name).unlink(missing_ok=True)


@contextmanager
def replacing(path: Path, mode: int = 0o666) -> Iterator[BinaryIO]:
    """Give a new file that takes its name when it is whole; after an error nothing is left of it.

    Nobody can guess where it is meanwhile, and put a link there. Raises OSError.
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
    """Return a name beside a path that readers ignore, and that nobody can guess."""
    return path.with_name(f"{TEMPORARY_PREFIX}{secrets.token_hex(8)}")


def _make(parent: int, name: str, *, private: bool) -> None:
    try:
        os.mkdir(name, 0o700 if private else 0o777, dir_fd=parent)
    except FileExistsError:
        pass  # opened next, whatever it is


def _entered(parent: int, name: str) -> int:
    """Open a directory by its name in another one."""
    try:
        return os.open(name, _BELOW, dir_fd=parent)
    except NotADirectoryError as exc:
        # What Linux says of a link to a directory, too.
        raise NotADirectoryError(exc.errno, "it is a link, or no directory", name) from exc
