"""Ask a running job for samples through the control words of its steps.bin."""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from tfprobe.errors import UnreadableInput, UsageError
from tfprobe.store.steps import WORD_BYTES, read_header

ANY_WORK = -1
MAX_SAMPLES = 1_000_000
_REQUEST_WORD = 32
_SAMPLES_WORD = 33
_WORK_WORD = 34
_SEEN_WORD = 40
_LEFT_WORD = 41


@dataclass(frozen=True, slots=True)
class Request:
    """Where a request stands: its sequence, the one the agent saw, and samples left to take."""

    sequence: int
    seen: int
    left: int


def request_samples(path: Path, *, samples: int, work: int = ANY_WORK) -> int:
    """Ask for `samples` samples of `work` and return the request's sequence.

    Raises UsageError on a count out of range, UnreadableInput when the file cannot be written.
    """
    if not 1 <= samples <= MAX_SAMPLES:
        raise UsageError(f"{samples} samples were asked for.", hint=f"1 to {MAX_SAMPLES:,} can be.")
    read_header(path)
    with _writable(path) as file:
        sequence = _word(file.fileno(), _REQUEST_WORD) + 1
        _put(file.fileno(), _SAMPLES_WORD, samples)
        _put(file.fileno(), _WORK_WORD, work)
        # Last: the agent acts when it sees a new sequence.
        _put(file.fileno(), _REQUEST_WORD, sequence)
    return sequence


def request_status(path: Path) -> Request:
    """Return where the latest request stands.

    Raises UnreadableInput when the file is absent or is no steps.bin.
    """
    read_header(path)
    with path.open("rb") as file:
        words = (_REQUEST_WORD, _SEEN_WORD, _LEFT_WORD)
        sequence, seen, left = (_word(file.fileno(), word) for word in words)
    return Request(sequence, seen, left)


def _writable(path: Path) -> BinaryIO:
    try:
        return cast(BinaryIO, path.open("r+b", buffering=0))
    except OSError as exc:
        hint = "Only the user who runs the job may ask it for samples."
        raise UnreadableInput(f"{path} cannot be written: {exc.strerror}.", hint=hint) from exc


def _word(descriptor: int, word: int) -> int:
    (value,) = struct.unpack("<q", os.pread(descriptor, WORD_BYTES, word * WORD_BYTES))
    return int(value)


def _put(descriptor: int, word: int, value: int) -> None:
    os.pwrite(descriptor, struct.pack("<q", value), word * WORD_BYTES)
