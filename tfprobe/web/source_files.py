"""Read source files of Python that a recording names. A recording is a stranger's: it may lie.

A path comes from the code map of a run alone, never from a question. Read are regular files of at
most 2 MB, named `.py` or `.pyw` in the recording and still so where links lead to: nothing waits
for a pipe, and neither /etc/shadow nor a key becomes a page, under whatever name it is linked.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from tfprobe.errors import Missing

MOST_BYTES = 2_000_000
SUFFIXES = (".py", ".pyw")
_OPENING = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


@dataclass(frozen=True, slots=True)
class Source:
    """The lines of a file, and when it was changed last."""

    lines: tuple[str, ...]
    changed_unix_ns: int


def read(name: str, *, beside: str = "") -> Source | Missing:
    """Return a file; one that is not absolute lies below `beside`, where the job was started."""
    if "\0" in name or not name.endswith(SUFFIXES):
        return Missing("it is not named as a source file of Python is")
    path = Path(beside) / name
    if not path.is_absolute():
        return Missing("the recording does not say in which directory it is")
    try:
        # Links are followed, virtual environments are made of them. What they lead to is opened
        # by its own name, which no link can be behind any more.
        place = os.path.realpath(path, strict=True)
        if not place.endswith(SUFFIXES):
            return Missing("it is a link to something that is not named as a source file")
        if not stat.S_ISREG(os.lstat(place).st_mode):
            return Missing("it is no regular file")
        return _read(place)
    except (OSError, ValueError) as exc:
        return Missing(_reason(exc))


def _read(place: str) -> Source | Missing:
    with os.fdopen(os.open(place, _OPENING | os.O_NOFOLLOW), "rb") as file:
        found = os.fstat(file.fileno())
        # Looked at again: it may have been another one a moment ago.
        if not stat.S_ISREG(found.st_mode):
            return Missing("it is no regular file")
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        return Missing(f"it has more than {MOST_BYTES // 1_000_000} MB")
    return Source(tuple(_text(content).split("\n")), found.st_mtime_ns)


def _text(content: bytes) -> str:
    # Whatever encoding a file declares, a stranger's too: some decoders take forever.
    text = content.decode("utf-8-sig", "replace")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _reason(exc: OSError | ValueError) -> str:
    if isinstance(exc, FileNotFoundError):
        return "it is not on this machine, or no longer there"
    if isinstance(exc, PermissionError):
        return "who runs tfprobe may not read it"
    return f"it cannot be read ({type(exc).__name__})"
