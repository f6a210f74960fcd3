"""A worker keeps the memory that it frees."""

from __future__ import annotations

import ctypes

from tfprobe.query.process_pool import disable_trim, restore_trim

# As malloc.h has them.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3


class _Library:
    """A C library with the calls; `set_to` is what it was asked."""

    def __init__(self) -> None:
        self.set_to: dict[int, int] = {}
        self.trimmed = 0

    def mallopt(self, parameter: int, value: int) -> int:
        self.set_to[parameter] = value
        return 1

    def malloc_trim(self, _pad: int) -> int:
        self.trimmed += 1
        return 1


def test_freed_memory_is_kept(monkeypatch):
    """Neither the end of the heap nor a piece of a column's size goes back to the system."""
    library = _Library()
    monkeypatch.setattr(ctypes, "CDLL", lambda _name: library)

    disable_trim()

    assert library.set_to == {M_TRIM_THRESHOLD: 256 << 20, M_MMAP_THRESHOLD: 32 << 20}


def test_what_was_kept_is_given_back(monkeypatch):
    """A worker of Dask is somebody's, and goes on as Dask's nanny began it."""
    library = _Library()
    monkeypatch.setattr(ctypes, "CDLL", lambda _name: library)

    disable_trim()
    restore_trim()

    assert library.set_to == {M_TRIM_THRESHOLD: 64 << 10, M_MMAP_THRESHOLD: 128 << 10}
    assert library.trimmed == 1


def test_where_the_c_library_cannot_be_asked_nothing_happens(monkeypatch):
    """Only glibc has the call: with another one reading is slower, and works."""
    asked = []
    monkeypatch.setattr(ctypes, "CDLL", lambda name: asked.append(name) or object())

    disable_trim()
    restore_trim()

    assert asked == [None] * 3
