"""Cache answers below RUN/derived for as long as the files that they come from do not change."""

from __future__ import annotations

import functools
import hashlib
import json
import math
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tfprobe
from tfprobe.query.codec import NotEncodable, plain
from tfprobe.runs import safe_files
from tfprobe.runs.layout import TEMPORARY_PREFIX, ProcessFolder, RunFolder, is_capture
from tfprobe.runs.process_folder.steps_layout import (
    HEAD_WORDS,
    HEADER_WORDS,
    LOOP_CAPACITY,
    WORD_BYTES,
    loop_at,
)
from tfprobe.runs.safe_files import content_of

SCHEMA = "tfprobe.kept/1"
# Of a run of 10,000 processes an answer is a tenth of it.
_MOST_BYTES = 1 << 29


def read(path: Path, key: str, kind: Any) -> Any:
    """Return the value that was cached under this key, or None. Any: of the type `kind`."""
    try:
        content = content_of(path, most_bytes=_MOST_BYTES)
        document = json.loads(content, parse_float=_finite, parse_constant=_finite)
        if document["schema"] != SCHEMA or document["key"] != key:
            return None
        return plain(kind).read(document["value"])
    except (OSError, ArithmeticError, LookupError, RecursionError, TypeError, ValueError):
        return None  # whatever somebody has put there


def write(run: RunFolder, path: Path, key: str, value: Any, kind: Any) -> None:
    """Write a value of the type `kind` to a file below `derived`; concurrent writers do not mix."""
    if not is_ours(run):
        return
    try:
        document = {"schema": SCHEMA, "key": key, "value": plain(kind).write(value)}
        content = json.dumps(document, allow_nan=False, separators=(",", ":")).encode()
    except (NotEncodable, TypeError, ValueError):
        return  # such as a text that no file can hold
    try:
        safe_files.write(run.root, path, content)
    except OSError:
        return  # a full disk, a run that is being removed


def _finite(text: str) -> float:
    """Refuse NaN and Infinity, also as 1e999: no answer has them, and no document can show them."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is no number of an answer")
    return number


def is_ours(run: RunFolder) -> bool:
    """Say whether this user may write caches into a run: not into that of another user.

    A link in the place of `derived` could lead anywhere.
    """
    try:
        owner = os.stat(run.root).st_uid
    except OSError:
        return False
    try:
        found = os.lstat(run.derived)
    except FileNotFoundError:
        return owner == os.geteuid()
    except OSError:
        return False
    return owner == found.st_uid == os.geteuid() and stat.S_ISDIR(found.st_mode)


_LOOPS_WORD = 10
# A name below the folder, and what stat tells of it.
_Fact = tuple[str, int, int, int]
_UNSEEN = (-1, -1, -1)


@dataclass(frozen=True, slots=True)
class Files:
    """The fingerprint of a process's files, and how much there is to decode and to parse."""

    fingerprint: str
    capture_bytes: int
    line_bytes: int


def files_of(folder: ProcessFolder) -> Files:
    """Look at the files of a process."""
    root = os.fspath(folder.root)
    captures = list(_facts(os.fspath(folder.captures)))
    facts = [*_facts(root), *_facts(os.fspath(folder.graphs)), *_facts(os.fspath(folder.code))]
    fingerprint = digest(sorted(captures), sorted(facts), _steps_head(folder.steps))
    line_bytes = sum(size for name, size, _, _ in facts if name.endswith(".jsonl") and size > 0)
    return Files(fingerprint, _capture_bytes(captures), line_bytes)


def capture_bytes(folder: ProcessFolder) -> int:
    """Return how much there is to decode of a process, without a look at its other files."""
    return _capture_bytes(_facts(os.fspath(folder.captures)))


def run_fingerprint(run: RunFolder) -> str:
    """Return the fingerprint of what a run has besides its processes.

    That is its manifest and those of further launches, interpreters, and accelerators.
    """
    manifest = [fact for fact in _facts(os.fspath(run.root)) if fact[0] == run.manifest.name]
    directories = (run.launches, run.boot, run.machine("").parent)
    return digest(manifest, *(sorted(_facts(os.fspath(directory))) for directory in directories))


@functools.cache
def this_program() -> str:
    """Return the fingerprint of this tfprobe: its version, and its files as they are.

    A checkout changes without a new version, and an older cache must not hide that.
    """
    root = Path(tfprobe.__file__).parent
    files = sorted(root.rglob("*.py"))
    facts = [(os.fspath(file.relative_to(root)), _seen(file)) for file in files]
    return digest(tfprobe.__version__, facts)


def _seen(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def digest(*things: object) -> str:
    """Return a short text that differs for other values."""
    return hashlib.blake2b(repr(things).encode(), digest_size=16).hexdigest()


def _facts(directory: str) -> Iterator[_Fact]:
    """Give the facts of the files in a directory; none if it is absent or not ours to read."""
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                fact = _fact(entry)
                if fact is not None:
                    yield fact
    except OSError:
        return  # whoever reads it reports that


def _fact(entry: os.DirEntry[str]) -> _Fact | None:
    """Return the facts of an entry: its name alone if it leads nowhere, None if it is not read."""
    try:
        if entry.name.startswith(TEMPORARY_PREFIX) or entry.is_dir():
            return None
        found = entry.stat()
    except OSError:
        return entry.name, *_UNSEEN  # a dangling link, or removed since it was listed
    return entry.name, found.st_size, found.st_mtime_ns, found.st_ino


def _capture_bytes(facts: Iterable[_Fact]) -> int:
    return sum(max(size, 0) for name, size, _, _ in facts if is_capture(name))


def _steps_head(path: Path) -> bytes:
    """Return the words of steps.bin that change with every step."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return b""
    try:
        header = os.pread(descriptor, HEADER_WORDS * WORD_BYTES, 0)
        at = _LOOPS_WORD * WORD_BYTES
        loops = int.from_bytes(header[at : at + WORD_BYTES], "little", signed=True)
        heads = [
            os.pread(descriptor, HEAD_WORDS * WORD_BYTES, loop_at(index) * WORD_BYTES)
            for index in range(min(max(loops, 0), LOOP_CAPACITY))
        ]
        return b"".join((header, *heads))
    except OSError:
        return b""
    finally:
        os.close(descriptor)
