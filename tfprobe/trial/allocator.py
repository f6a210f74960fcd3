"""Find a library with another allocator, which a process gets by LD_PRELOAD when it starts."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from tfprobe.findings.fixes import ALLOCATOR, ChosenFix

_NAMES = ("libtcmalloc_minimal.so*", "libtcmalloc.so*", "libjemalloc.so*")


def _folders() -> Iterable[Path]:
    """Return where libraries of this machine's processor lie, as distributions have them."""
    of_processor = f"{platform.machine()}-linux-gnu"
    for root in (Path("/usr/local"), Path("/usr"), Path("/")):
        yield from (root / "lib" / of_processor, root / "lib64", root / "lib")


def find_allocator(folders: Iterable[Path] | None = None) -> str:
    """Return the path of a library of tcmalloc, else of jemalloc; "" if there is none."""
    places = tuple(_folders() if folders is None else folders)
    for name in _NAMES:
        for folder in places:
            found = sorted(folder.glob(name))
            if found:
                return str(found[0])
    return ""


def with_library(chosen: ChosenFix) -> ChosenFix:
    """Return a fix with the library to load, where it is one for which none was given."""
    is_open = chosen.fix.id == ALLOCATOR and not chosen.value
    return replace(chosen, value=find_allocator()) if is_open else chosen
