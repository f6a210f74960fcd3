"""Read steps.bin, also while its process writes it, and after a kill at any moment.

The layout is fixed by docs/design.md. A reader trusts nothing in the file: every number is checked
against the size of the file before it is used.
"""

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
WORK_CAPACITY = 256
WORK_WORDS = 19_968
RING_STEPS = 8_192
BUCKETS = 768
SLOT_WORDS = 8 + 2 * BUCKETS
SLOTS_WORD = 64
RING_WORD = SLOTS_WORD + 2 * SLOT_WORDS
SAMPLED_BIT = 1 << 61
RAISED_BIT = 1 << 60
TIME_MASK = RAISED_BIT - 1
# A fold happens once per 256 steps and a slot is read in microseconds: more changes are garbage.
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


@dataclass(frozen=True, slots=True)
class Header:
    """The process-wide words of steps.bin. Times are nanoseconds, monotonic unless named unix."""

    pid: int
    moment_unix_ns: int
    moment_mono_ns: int
    works_in_use: int
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

    def unix_ns(self, mono_ns: int) -> int:
        """Place a monotonic time on the wall clock, by the moment noted on both."""
        return self.moment_unix_ns + mono_ns - self.moment_mono_ns


@dataclass(frozen=True, slots=True)
class Aggregate:
    """Count, sum, extremes and histogram of durations in ns; with no count, no extremes."""

    count: int
    sum_ns: int
    min_ns: int
    max_ns: int
    buckets: Words


@dataclass(frozen=True, slots=True)
class RecentSteps:
    """The latest steps of a work, oldest first; row i is step `first_step + i`."""

    first_step: int
    start_ns: Words
    end_ns: Words
    sampled: Flags
    raised: Flags


@dataclass(frozen=True, slots=True)
class WorkRecord:
    """One work as its process left it. `count` is executed minus raised."""

    index: int
    kind: str
    name: str
    thread: str
    thread_id: int
    executed: int
    raised: int
    sampled: int
    first_seen_ns: int
    steps_per_execution: int
    optimizer_steps: int | None
    retraces: int
    steps: Aggregate
    gaps: Aggregate
    recent: RecentSteps

    @property
    def count(self) -> int:
        return self.executed - self.raised


@dataclass(frozen=True, slots=True)
class StepsGlance:
    """What a listing shows of one steps.bin: `steps` are completed ones, of all works."""

    header: Header
    steps: int
    written_unix_ns: int


@dataclass(frozen=True, slots=True)
class StepsFile:
    """Everything read from one steps.bin; `problems` says what in it could not be used."""

    header: Header
    works: tuple[WorkRecord, ...]
    problems: tuple[str, ...]


def read_steps(path: Path) -> StepsFile:
    """Read header and works.

    Raises UnreadableInput when the file is absent or is no steps.bin of layout 1.
    """
    works: list[WorkRecord] = []
    problems: list[str] = []
    with _opened(path) as file:
        header = _header(file)
        for index in range(header.works_in_use):
            block = _work(file, index)
            if isinstance(block, WorkRecord):
                works.append(block)
            else:
                problems.append(f"{path.name}: work {index} {block}")
    return StepsFile(header, tuple(works), tuple(problems))


def read_header(path: Path) -> Header:
    """Read the process-wide words only.

    Raises UnreadableInput when the file is absent or is no steps.bin of layout 1.
    """
    with _opened(path) as file:
        return _header(file)


def count_steps(path: Path) -> int:
    """Return the completed steps of all works without reading their times.

    Raises UnreadableInput when the file is absent or is no steps.bin of layout 1.
    """
    with _opened(path) as file:
        return _completed(file, _header(file))


def read_glance(path: Path) -> StepsGlance:
    """Read what a listing shows, by opening the file once.

    Raises UnreadableInput when the file is absent or is no steps.bin of layout 1.
    """
    with _opened(path) as file:
        header = _header(file)
        return StepsGlance(header, _completed(file, header), file.written_unix_ns())


def bucket_of(duration_ns: Words) -> Words:
    """Return the histogram bucket of each duration: 16 an octave, from 1 ns."""
    bits = np.maximum(duration_ns, 1).astype(np.float64).view(np.int64)
    bucket: Words = np.minimum((bits >> 48) - (1023 << 4), BUCKETS - 1)
    return bucket


class _WordFile:
    """A file of words, read with pread: mapping a live writer's pages could end in SIGBUS."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # A pipe in its place must not hold the reader.
        self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)

    def __enter__(self) -> _WordFile:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

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


def _opened(path: Path) -> _WordFile:
    try:
        return _WordFile(path)
    except OSError as exc:
        raise UnreadableInput(f"{path} cannot be opened: {exc.strerror or exc}.") from exc


def _header(file: _WordFile) -> Header:
    words = [int(word) for word in file.words(0, HEADER_WORDS)]
    if len(words) < HEADER_WORDS or words[0] != MAGIC:
        hint = "The process was killed while it made the file, or the file was overwritten."
        raise UnreadableInput(f"{file.path} is not a steps.bin.", hint=hint)
    # The capacity of works is smaller where the agent could not map the file.
    expected = [LAYOUT_VERSION, HEADER_WORDS, words[3], WORK_WORDS, RING_STEPS, BUCKETS]
    if words[1:7] != expected or not 0 < words[3] <= WORK_CAPACITY:
        hint = "Read it with the version of tfprobe that recorded it."
        raise UnreadableInput(f"{file.path} has another layout: {words[1:7]}.", hint=hint)
    state = words[11] if words[11] in (1, 2, 3) else 1
    return Header(
        pid=words[7],
        moment_unix_ns=words[8],
        moment_mono_ns=words[9],
        works_in_use=min(max(words[10], 0), words[3]),
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
    )


def _completed(file: _WordFile, header: Header) -> int:
    heads = (file.words(_work_at(index), 4) for index in range(header.works_in_use))
    return sum(max(int(h[1] - h[2]), 0) for h in heads if len(h) == 4)


def _work_at(index: int) -> int:
    return HEADER_WORDS + index * WORK_WORDS


def _work(file: _WordFile, index: int) -> WorkRecord | str:
    """Return the work, or what is wrong with it.

    The order of reading makes it safe against a live writer. The slot is read first: the steps
    after it are in the ring. The count comes next: rows below it are whole. The count is read
    again last: rows which the writer may have overwritten meanwhile are left out.
    """
    at = _work_at(index)
    slot = _slot(file, at)
    if slot is None:
        return "has no whole aggregate"
    head = [int(word) for word in file.words(at, 16)]
    if len(head) < 16:
        return "is beyond the end of the file"
    executed = head[1]
    # A live writer notes that a step raised before it counts the step.
    if not 0 <= head[2] <= executed + 1 or not 0 <= head[0] < len(KINDS):
        return f"makes no sense: kind {head[0]}, {executed} executed, {head[2]} raised"
    recent = _recent(file, at, executed)
    steps, gaps = _with_tail(slot, recent, executed)
    return WorkRecord(
        index=index,
        kind=KINDS[head[0]],
        name=file.text(at + 16, 32),
        thread=file.text(at + 48, 16),
        thread_id=head[4],
        executed=executed,
        raised=min(head[2], executed),
        sampled=min(max(head[3], 0), executed),
        first_seen_ns=head[5],
        steps_per_execution=max(head[6], 1),
        optimizer_steps=head[7] if head[7] >= 0 else None,
        retraces=max(head[9], 0),
        steps=steps,
        gaps=gaps,
        recent=recent,
    )


def _slot(file: _WordFile, at: int) -> Words | None:
    """Return the active aggregate slot, read while it stayed active."""
    for _ in range(SLOT_ATTEMPTS):
        active = file.words(at + 8, 1)
        if len(active) != 1 or active[0] not in (0, 1):
            return None
        slot = file.words(at + SLOTS_WORD + int(active[0]) * SLOT_WORDS, SLOT_WORDS)
        if len(slot) < SLOT_WORDS:
            return None
        if file.words(at + 8, 1)[0] == active[0]:
            return slot
    return None


def _recent(file: _WordFile, at: int, executed: int) -> RecentSteps:
    held = min(executed, RING_STEPS)
    ring = file.words(at + RING_WORD, 2 * (held if executed <= RING_STEPS else RING_STEPS))
    executed_since = int(file.words(at + 1, 1)[0])
    # The writer may be filling the row of step `executed_since` now: the step a ring before it
    # is lost.
    first = max(executed - held, executed_since + 1 - RING_STEPS, 0)
    first = min(first, executed)
    rows = ring[: len(ring) // 2 * 2].reshape(-1, 2)
    order = np.arange(first, executed, dtype=np.int64) % RING_STEPS
    order = order[order < len(rows)]
    start_ns, end_words = rows[order, 0], rows[order, 1]
    return RecentSteps(
        first_step=first,
        start_ns=start_ns,
        end_ns=end_words & TIME_MASK,
        sampled=(end_words & SAMPLED_BIT) != 0,
        raised=(end_words & RAISED_BIT) != 0,
    )


def _with_tail(slot: Words, recent: RecentSteps, executed: int) -> tuple[Aggregate, Aggregate]:
    """Add the steps that are not folded yet, which are at the end of the ring."""
    folded = min(max(int(slot[0]), 0), executed)
    skip = max(folded - recent.first_step, 0)
    step_ns = np.maximum(recent.end_ns - recent.start_ns, 0)[skip:]
    # The first gap of the tail begins at the last folded step; step 0 has no gap before it.
    gap_from = max(skip, 1)
    gap_ns = np.maximum(recent.start_ns[gap_from:] - recent.end_ns[gap_from - 1 : -1], 0)
    steps = _added(slot[0:4], slot[8 : 8 + BUCKETS], step_ns)
    gaps = _added(slot[4:8], slot[8 + BUCKETS :], gap_ns)
    return steps, gaps


def _added(facts: Words, buckets: Words, tail_ns: Words) -> Aggregate:
    count, sum_ns, min_ns, max_ns = (int(fact) for fact in facts)
    counts = np.bincount(bucket_of(tail_ns), minlength=BUCKETS).astype(np.int64)
    if count <= 0:
        count, sum_ns, min_ns, max_ns = 0, 0, np.iinfo(np.int64).max, 0
        buckets = np.zeros(BUCKETS, dtype=np.int64)
    if len(tail_ns):
        min_ns = min(min_ns, int(tail_ns.min()))
        max_ns = max(max_ns, int(tail_ns.max()))
    total = count + len(tail_ns)
    return Aggregate(
        count=total,
        sum_ns=sum_ns + int(tail_ns.sum()),
        min_ns=min_ns if total else 0,
        max_ns=max_ns,
        buckets=np.maximum(buckets, 0) + counts,
    )
