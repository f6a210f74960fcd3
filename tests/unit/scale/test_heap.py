"""A worker keeps the memory that it frees."""

from __future__ import annotations

import ctypes

from tfprobe.scale import heap


class _Library:
    """A C library with the call; `set_to` is what it was asked."""

    def __init__(self) -> None:
        self.set_to: dict[int, int] = {}

    def mallopt(self, parameter: int, value: int) -> int:
        self.set_to[parameter] = value
        return 1


def test_freed_memory_is_kept(monkeypatch):
    """Neither the end of the heap nor a piece of a column's size goes back to the system."""
    library = _Library()
    monkeypatch.setattr(ctypes, "CDLL", lambda _name: library)

    heap.keep_freed()

    m_trim_threshold, m_mmap_threshold = -1, -3  # as malloc.h has them
    assert library.set_to == {m_trim_threshold: 256 << 20, m_mmap_threshold: 32 << 20}


def test_where_the_c_library_cannot_be_asked_nothing_happens(monkeypatch):
    """Only glibc has the call: with another one reading is slower, and works."""
    asked = []
    monkeypatch.setattr(ctypes, "CDLL", lambda name: asked.append(name) or object())

    heap.keep_freed()

    assert asked == [None]
