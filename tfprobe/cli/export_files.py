"""Write what is exported, so that nothing is left of a file that could not be finished."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator
from pathlib import Path

from tfprobe.launch import environ
from tfprobe.store.layout import TEMPORARY_PREFIX

_GZIP = b"\x1f\x8b"


def write_files(directory: Path, files: Iterable[tuple[str, str]]) -> None:
    """Write files by their names below a directory."""
    for name, text in files:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text, encoding="utf-8", errors="replace")


def write_pieces(path: Path, pieces: Iterator[str | bytes], *, report: Path | None) -> None:
    """Write the pieces of one file; `report` is the directory of ours that may have to be made."""
    first = next(pieces, "")  # what cannot be answered is said before a file is touched
    if path.parent == report:
        path.parent.mkdir(mode=0o700, exist_ok=True)
    if path.exists() and not path.is_file():
        _write(path, first, pieces)  # a pipe or a device, which must stay what it is
        return
    path = environ.absolute(path).resolve()
    unfinished = path.with_name(f"{TEMPORARY_PREFIX}{path.name}")
    try:
        _write(unfinished, first, pieces)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def _write(path: Path, first: str | bytes, others: Iterator[str | bytes]) -> None:
    is_packed = path.suffix == ".gz" and not _bytes(first).startswith(_GZIP)
    with (gzip.open if is_packed else open)(path, "wb") as stream:
        stream.write(_bytes(first))
        for piece in others:
            stream.write(_bytes(piece))


def _bytes(piece: str | bytes) -> bytes:
    return piece.encode("utf-8", "replace") if isinstance(piece, str) else piece
