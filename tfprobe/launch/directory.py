"""Make the directory of a run, private and written in place."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
from pathlib import Path

# <linux/fs.h>: _IOR('f', 1, long), _IOW('f', 2, long) and FS_NOCOW_FL, which `chattr +C` sets.
_GET_FLAGS = 0x80086601
_SET_FLAGS = 0x40086602
_NO_COPY_ON_WRITE = 0x00800000
# The kernel reads and writes an int, whatever the requests say.
_FLAGS_BYTES = 4


def make(path: Path) -> None:
    """Make it; raises FileExistsError where there is one, and OSError.

    A job keeps its counts in a mapped file, steps.bin, whose blocks are allocated beforehand. On
    btrfs that is not enough: each write takes a new block, and where the disk has none the job
    would end by SIGBUS. What is made in a directory inherits the flag, so it is set first.
    """
    path.mkdir(0o700)
    # Other file systems refuse: they have no such flag, because they write in place.
    with contextlib.suppress(OSError):
        _write_in_place(path)


def _write_in_place(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        answer = fcntl.ioctl(descriptor, _GET_FLAGS, bytes(_FLAGS_BYTES))
        flags = int.from_bytes(answer, sys.byteorder) | _NO_COPY_ON_WRITE
        fcntl.ioctl(descriptor, _SET_FLAGS, flags.to_bytes(_FLAGS_BYTES, sys.byteorder))
    finally:
        os.close(descriptor)
