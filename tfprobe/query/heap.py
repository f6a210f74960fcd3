"""Let a process keep the memory that it frees: the next shard takes as much again."""

from __future__ import annotations

import contextlib
import ctypes

# The parameters of mallopt(3), and what they are set to: as much as one shard frees, and the
# most that glibc takes for the size from which on each piece is mapped by itself.
_TRIM_THRESHOLD, _TRIM_BYTES = -1, 256 << 20
_MMAP_THRESHOLD, _MMAP_BYTES = -3, 32 << 20
# What Dask asks for in its workers, and what glibc begins with.
_DASKS_TRIM_BYTES = 64 << 10
_USUAL_MMAP_BYTES = 128 << 10


def keep_freed() -> None:
    """Ask the C library not to give back freed memory to the system, where it can be asked.

    Columns are large, and come and go: without this, each is made of pages that the system has to
    fill with zeros first, about a tenth of the time.
    """
    _set(_TRIM_BYTES, _MMAP_BYTES)


def give_back_freed() -> None:
    """Give back what a worker of Dask has kept, and let it go on as Dask has it."""
    _set(_DASKS_TRIM_BYTES, _USUAL_MMAP_BYTES)
    with contextlib.suppress(OSError, AttributeError):  # as in _set
        ctypes.CDLL(None).malloc_trim(0)


def _set(trim_bytes: int, mmap_bytes: int) -> None:
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # not of glibc
        return
    mallopt(_TRIM_THRESHOLD, trim_bytes)
    mallopt(_MMAP_THRESHOLD, mmap_bytes)
