"""Name the words of steps.bin, whose layout docs/run-directory.md fixes, and read its header."""

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
# The job waited for the step, of a loop whose calls only queue its steps.
WAITED_BIT = 1 << 59
TIME_MASK = WAITED_BIT - 1
# The words of a loop block before its names.
HEAD_WORDS = 16
# When the loop reads the control words next: of no interest to a reader, and changed all the time.
LOOK_WORD = 10
THREADS_WORD = 11
# Of loops whose calls only queue their steps: 1, waits for a step, their ns, the ns of these calls.
QUEUES_WORD, WAITS_WORD, WAIT_NS_WORD, CALL_NS_WORD = 12, 13, 14, 15
# A fold happens once in 1024 steps and reading a slot takes microseconds: more attempts would only
# read garbage.
SLOT_ATTEMPTS = 8
# Words of the header that hold a time, and a time that is beyond the year 2100 on either clock.
_TIMES = (8, 9, 12, 19, 20, 23)
_NO_TIME_NS = 1 << 62
# Word 25: a status that is known, shifted by 16 bits, ends with this; see docs/run-directory.md.
_STATUS_MARK = 0x330E
_STATUS_FOLLOWS = 1

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
    "jit",
    "compiled",
    "optimizer_step",
    "forward",
    "compiled_step",
    "grad",
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
        """Return when it exited, 0 if it noted no exit."""
        if self.exit_mono_ns or not self.exit_unix_ns:
            return self.exit_mono_ns
        return self.exit_unix_ns - self.moment_unix_ns + self.moment_mono_ns

    @property
    def last_note_mono_ns(self) -> int:
        """Return when it exited or, if it noted no exit, when its header was last written."""
        return self.ended_mono_ns or self.last_activity_mono_ns

    def unix_ns(self, mono_ns: int) -> int:
        """Convert a monotonic time to the wall clock, by the moment that is noted on both."""
        return self.moment_unix_ns + mono_ns - self.moment_mono_ns


@dataclass(frozen=True, slots=True)
class StepsGlance:
    """What a listing shows of one steps.bin.

    `steps` are completed ones, of all loops, and those that were counted without their times.
    """

    header: Header
    steps: int
    written_unix_ns: int


def read_header(path: Path) -> Header:
    """Read the process-wide words only.

    Raises UnreadableInput when the file is absent or is no steps.bin of layout 1.
    """
    with opened(path) as file:
        return header_of(file)


def bytes_in_use(path: Path) -> int:
    """Return how many bytes of the file are in use: the rest are zeros, which need not be copied.

    If it is no steps.bin of layout 1, all of it is in use.
    """
    try:
        return 8 * loop_at(read_header(path).loops_in_use)
    except UnreadableInput:
        return path.stat().st_size


def count_steps(path: Path) -> int:
    """Return the completed steps of all loops without reading their times.

    Raises UnreadableInput when the file is absent or is no steps.bin of layout 1.
    """
    with opened(path) as file:
        return _completed(file, header_of(file))


def read_glance(path: Path) -> StepsGlance:
    """Read what a listing shows, by opening the file once.

    Raises UnreadableInput when the file is absent or is no steps.bin of layout 1.
    """
    with opened(path) as file:
        header = header_of(file)
        return StepsGlance(header, _completed(file, header), file.written_unix_ns())


def header_of(file: WordFile) -> Header:
    words = integers(file.words(0, HEADER_WORDS))
    if len(words) < HEADER_WORDS or words[0] != MAGIC:
        hint = (
            "The disk was full or failed, the process was killed while it made the file, or the "
            "file was overwritten."
        )
        raise UnreadableInput(f"{file.path} is not a steps.bin.", hint=hint)
    # The capacity of loops is smaller where the agent could not map the file.
    expected = [LAYOUT_VERSION, HEADER_WORDS, words[3], LOOP_WORDS, RING_STEPS, BUCKETS]
    if words[1:7] != expected or not 0 < words[3] <= LOOP_CAPACITY:
        hint = "Read it with the version of tfprobe that recorded it."
        raise UnreadableInput(f"{file.path} has another layout: {words[1:7]}.", hint=hint)
    if not all(0 <= words[at] < _NO_TIME_NS for at in _TIMES):
        hint = "The file was overwritten."
        raise UnreadableInput(f"{file.path} has impossible times in its header.", hint=hint)
    state = words[11] if words[11] in (1, 2, 3) else 1
    ending = words[24] if words[24] in (1, 2, 3, 4) else 0
    return Header(
        pid=words[7],
        moment_unix_ns=words[8],
        moment_mono_ns=words[9],
        loops_in_use=min(max(words[10], 0), words[3]),
        state=AgentState(state),
        exit_unix_ns=words[12],
        hook_calls_measured=words[13],
        hook_measured_ns=words[14],
        fold_ns=words[15],
        captures_written=words[16],
        traced_ns=words[17],
        once_ns=words[18],
        started_mono_ns=words[19],
        last_activity_mono_ns=words[20],
        request_sequence=words[32],
        request_seen=words[40],
        request_left=words[41],
        ending=EndingRecord(ending),
        exit_status=_exit_status(words[25]),
        status_follows=words[25] == _STATUS_FOLLOWS,
        untimed_steps=max(words[21], 0),
        untimed_threads=max(words[22], 0),
        exit_mono_ns=words[23],
    )


def _exit_status(word: int) -> int | None:
    """Return what a parent sees of an exit status, which is its last byte; None before the end."""
    return (word >> 16) & 0xFF if word & 0xFFFF == _STATUS_MARK else None


def _completed(file: WordFile, header: Header) -> int:
    heads = (file.words(loop_at(index), 4) for index in range(header.loops_in_use))
    return header.untimed_steps + sum(max(int(h[1] - h[2]), 0) for h in heads if len(h) == 4)


def loop_at(index: int) -> int:
    """Return the first word of a loop block."""
    return HEADER_WORDS + index * LOOP_WORDS


class WordFile:
    """A file of words, read with pread: mapping a live writer's pages could end in SIGBUS."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # A pipe in its place must not block the reader.
        self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)

    def __enter__(self) -> WordFile:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def identity(self) -> tuple[int, int]:
        """Return what distinguishes this file from another one at the same path."""
        facts = os.fstat(self._descriptor)
        return facts.st_dev, facts.st_ino

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
    """Return the words as Python integers."""
    numbers: list[int] = words.tolist()
    return numbers
