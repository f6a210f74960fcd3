"""Read a file of a recording as a whole: no pipe in its place holds us, no flood fills us."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

# No message of protobuf is longer, and captures and graphs are such messages.
MOST_BYTES = (1 << 31) - 1


def content_of(path: Path, *, most_bytes: int = MOST_BYTES) -> bytes:
    """Return what is in a regular file of at most `most_bytes`.

    Raises OSError for all else, a name that no file can have among it.
    """
    try:
        # Opening a pipe would wait for whoever writes to it.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except ValueError as exc:
        raise OSError(errno.ENOENT, "no file has such a name") from exc
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
