"""Name the words of steps.bin, as docs/run-directory.md fixes them, and hold what they say."""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tfprobe.errors import UnreadableInput

Words = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

WORD_BYTES = 8
MAGIC = int.from_bytes(b"TFPSTEP1", "little")
LAYOUT_VERSION = 1
HEADER_WORDS = 512
LOOP_CAPACITY = 256
LOOP_WORDS = 19_968
RING_STEPS = 8_192
BUCKETS = 768
SLOT_WORDS = 8 + 2 * BUCKETS
SLOTS_WORD = 64
RING_WORD = SLOTS_WORD + 2 * SLOT_WORDS
# The gap after the step was watched, and is longer by that: the sign of a word.
WATCHED_BIT = -1 << 63
NEW_THREAD_BIT = 1 << 62
SAMPLED_BIT = 1 << 61
RAISED_BIT = 1 << 60
TIME_MASK = RAISED_BIT - 1
# What of a loop block changes with its steps, before the names.
# The word after them says when the loop looks at the control words.
HEAD_WORDS = 10
THREADS_WORD = 11
# A fold happens once per 1024 steps and a slot is read in microseconds: more changes are garbage.
SLOT_ATTEMPTS = 8

KINDS: tuple[str, ...] = (
    "session_run",
    "callable",
    "fit",
    "evaluate",
    "predict",
    "train_on_batch",
    "test_on_batch",
    "predict_on_batch",
    "function",
    "eager",
)


class AgentState(Enum):
    """What the agent last said about itself."""

    RUNNING = 1
    FINISHED = 2
    STEPPED_ASIDE = 3


class EndingRecord(Enum):
    """How a process ended, as far as it could note that itself."""

    NOT_NOTED = 0
    EXIT_HOOKS = 1
    EXCEPTION = 2
    OS_EXIT = 3
    # By another program, in the same process: os.exec*.
    REPLACED = 4


# Two clocks are read one after the other, and the reader may be interrupted in between. A clock
# that is off by more was set; what is off by less is slewed, and the monotonic clock with it.
CLOCK_WAS_SET_NS = 100_000_000


@dataclass(frozen=True, slots=True)
class Header:
    """The process-wide words of steps.bin. Times are nanoseconds, monotonic unless named unix."""

    pid: int
    moment_unix_ns: int
    moment_mono_ns: int
    loops_in_use: int
    state: AgentState
    exit_unix_ns: int
    hook_calls_measured: int
    hook_measured_ns: int
    fold_ns: int
    captures_written: int
    traced_ns: int
    once_ns: int
    started_mono_ns: int
    last_activity_mono_ns: int
    request_sequence: int
    request_seen: int
    request_left: int
    ending: EndingRecord = EndingRecord.NOT_NOTED
    # Of the process, 0 to 255; where it `status_follows` the C library stores it last of all.
    exit_status: int | None = None
    status_follows: bool = False
    untimed_steps: int = 0
    untimed_threads: int = 0
    # 0 before the exit, and in recordings whose agent noted its exit by the wall clock alone.
    exit_mono_ns: int = 0

    @property
    def ended_mono_ns(self) -> int:
        """Return when it exited, 0 where it noted no exit."""
        if self.exit_mono_ns or not self.exit_unix_ns:
            return self.exit_mono_ns
        return self.exit_unix_ns - self.moment_unix_ns + self.moment_mono_ns

    @property
    def last_note_mono_ns(self) -> int:
        """Return when it exited; of one that noted no exit, when its header was last written."""
        return self.ended_mono_ns or self.last_activity_mono_ns

    def unix_ns(self, mono_ns: int) -> int:
        """Place a monotonic time on the wall clock, by the moment noted on both."""
        return self.moment_unix_ns + mono_ns - self.moment_mono_ns


def loop_at(index: int) -> int:
    """Return the first word of a loop block."""
    return HEADER_WORDS + index * LOOP_WORDS


class WordFile:
    """A file of words, read with pread: mapping a live writer's pages could end in SIGBUS."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # A pipe in its place must not hold the reader.
        self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)

    def __enter__(self) -> WordFile:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def identity(self) -> tuple[int, int]:
        """Return what tells this file from another one at the same path."""
        found = os.fstat(self._descriptor)
        return found.st_dev, found.st_ino

    def size(self) -> int:
        """Return its length in bytes."""
        return os.fstat(self._descriptor).st_size

    def words(self, at: int, count: int) -> Words:
        """Return up to `count` words from word `at`: fewer at the end of the file.

        Raises UnreadableInput.
        """
        try:
            content = os.pread(self._descriptor, count * WORD_BYTES, at * WORD_BYTES)
        except OSError as exc:
            problem = f"{self.path} cannot be read: {exc.strerror or exc}."
            raise UnreadableInput(problem) from exc
        whole = len(content) // WORD_BYTES
        return np.frombuffer(content, dtype="<i8", count=whole).astype(np.int64, copy=False)

    def written_unix_ns(self) -> int:
        """Return when somebody last wrote to the file, by its file system."""
        return os.fstat(self._descriptor).st_mtime_ns

    def text(self, at: int, words: int) -> str:
        return self.words(at, words).tobytes().split(b"\0", 1)[0].decode("utf-8", "replace")


def opened(path: Path) -> WordFile:
    """Open a file of words.

    Raises UnreadableInput.
    """
    try:
        return WordFile(path)
    except OSError as exc:
        raise UnreadableInput(f"{path} cannot be opened: {exc.strerror or exc}.") from exc


def integers(words: Words) -> list[int]:
    """Return the words as numbers of Python."""
    found: list[int] = words.tolist()
    return found
