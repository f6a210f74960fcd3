"""Read a file of a recording as a whole: no pipe in its place holds us, no flood fills us."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

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
