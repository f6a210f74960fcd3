"""Ask a running job for samples through the control words of its steps.bin."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from tfprobe.errors import UnreadableInput, UsageError
from tfprobe.runs import safe_files
from tfprobe.runs.process_folder.steps_layout import (
    HEADER_WORDS,
    LOOP_WORDS,
    WORD_BYTES,
    read_header,
)

ANY_LOOP = -1
MAX_SAMPLES = 1_000_000
_REQUEST_WORD = 32
_SAMPLES_WORD = 33
_LOOP_WORD = 34
_SEEN_WORD = 40
_LEFT_WORD = 41
_ENDED_WORD = 42
# In a loop block: when it looks at the words above next.
_LOOK_WORD = 10
# A sequence beyond this was not counted up by us.
_LAST_SEQUENCE = 1 << 62
# A request is written in microseconds: a lock that is held longer belongs to a stopped process.
_LOCK_PATIENCE_S = 1.0
_LOCK_PAUSE_S = 0.005
_HINTS = {
    errno.EACCES: "Only the user who runs the job, or root, may ask it for samples.",
    errno.EPERM: "Only the user who runs the job, or root, may ask it for samples.",
    errno.EROFS: "It is mounted read-only here: ask where the job runs.",
}


@dataclass(frozen=True, slots=True)
class Request:
    """Where a request stands: its sequence, the one the agent saw, and samples left to take.

    `sampling_ended`: the agent takes no samples any more, after an error of its own or a full disk.
    """

    sequence: int
    seen: int
    left: int
    sampling_ended: bool = False


def request_samples(path: Path, *, samples: int, loop: int = ANY_LOOP) -> int:
    """Request `samples` traces of `loop` and return the sequence number of the request.

    Raises UsageError on a count out of range, UnreadableInput when the file cannot be written.
    """
    if not 1 <= samples <= MAX_SAMPLES:
        raise UsageError(f"{samples} samples were asked for.", hint=f"1 to {MAX_SAMPLES:,} can be.")
    loops = read_header(path).loops_in_use
    with _writable(path) as file, _alone(file.fileno()):
        sequence = _next_sequence(file.fileno())
        _put(file.fileno(), _SAMPLES_WORD, samples)
        _put(file.fileno(), _LOOP_WORD, loop)
        # After those: the agent acts when it sees a new sequence.
        _put(file.fileno(), _REQUEST_WORD, sequence)
        for index in range(loops) if loop == ANY_LOOP else (loop,):
            _wake(file.fileno(), index)
    return sequence


def request_status(path: Path) -> Request:
    """Return where the latest request stands.

    Raises UnreadableInput when the file is absent or is no steps.bin.
    """
    read_header(path)
    words = (_REQUEST_WORD, _SEEN_WORD, _LEFT_WORD, _ENDED_WORD)
    try:
        with os.fdopen(safe_files.opened(path.parents[2], path), "rb") as file:
            sequence, seen, left, ended = (_word(file.fileno(), word) for word in words)
    except (OSError, struct.error) as exc:
        raise UnreadableInput(f"{path} cannot be read: {exc}.") from exc
    return Request(sequence, seen, left, ended == 1)


@contextmanager
def _writable(path: Path) -> Iterator[BinaryIO]:
    """Open the file; whatever goes wrong with it becomes an error of ours."""
    try:
        # A run may come from a stranger, whose links would have another file written to.
        descriptor = safe_files.opened(path.parents[2], path, os.O_RDWR)
        with cast(BinaryIO, os.fdopen(descriptor, "r+b", buffering=0)) as file:
            yield file
    except OSError as exc:
        hint = _HINTS.get(exc.errno or 0, "")
        raise UnreadableInput(
            f"{path} cannot be written: {exc.strerror or exc}.", hint=hint
        ) from exc


@contextmanager
def _alone(descriptor: int) -> Iterator[None]:
    """Keep others out: two concurrent requests would get one sequence number, and one be lost."""
    deadline = time.monotonic() + _LOCK_PATIENCE_S
    while not _locked(descriptor) and time.monotonic() < deadline:
        time.sleep(_LOCK_PAUSE_S)
    # Closing the file unlocks it.
    yield


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass  # a file system without locks: the agent tells which of two orders it took
    return True


def _next_sequence(descriptor: int) -> int:
    """Return a sequence that the agent has not seen, whatever somebody wrote into the words."""
    words = (_word(descriptor, word) for word in (_REQUEST_WORD, _SEEN_WORD))
    return max((word for word in words if 0 <= word < _LAST_SEQUENCE), default=0) + 1


def _wake(descriptor: int, index: int) -> None:
    """Let the next step of a loop look at the control words, and not the one in 10 ms."""
    word = HEADER_WORDS + index * LOOP_WORDS + _LOOK_WORD
    # A file that is not mapped is as long as what was written.
    if index >= 0 and (word + 1) * WORD_BYTES <= os.fstat(descriptor).st_size:
        _put(descriptor, word, 0)


def _word(descriptor: int, word: int) -> int:
    (value,) = struct.unpack("<q", os.pread(descriptor, WORD_BYTES, word * WORD_BYTES))
    return int(value)


def _put(descriptor: int, word: int, value: int) -> None:
    os.pwrite(descriptor, struct.pack("<q", value), word * WORD_BYTES)
