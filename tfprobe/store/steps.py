"""Read steps.bin, also while its process writes it, and after a kill at any moment.

The layout is fixed by docs/design.md. A reader trusts nothing in the file: every number is checked
against the size of the file before it is used. Whoever reads it again and again reads what is new.
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
# What of a work block changes with its steps, before the names.
HEAD_WORDS = 10
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
    request_sequence: int
    request_seen: int
    request_left: int

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


class StepsReader:
    """Read one steps.bin again and again: an answer is a whole one, and only news are read for it.

    The file is opened each time: one that is kept open would not tell that it was removed or
    replaced, nor, on a network, what is new in it.
    """

    def __init__(self, path: Path, *, keep_steps: int = RING_STEPS) -> None:
        """Remember of each work its latest `keep_steps` steps, if the file still has them."""
        self._path = path
        self._keep_steps = keep_steps
        self._identity: tuple[int, ...] = ()
        self._size = 0
        self._known: dict[int, _KnownWork] = {}

    def read(self) -> StepsFile:
        """Return header and works as they are now.

        Raises UnreadableInput when the file is absent or is no steps.bin of layout 1.
        """
        works: list[WorkRecord] = []
        problems: list[str] = []
        with _opened(self._path) as file:
            header = _header(file)
            self._forget_another(file, header)
            for index in range(header.works_in_use):
                block = self._work(file, index)
                if isinstance(block, WorkRecord):
                    works.append(block)
                else:
                    problems.append(f"{self._path.name}: work {index} {block}")
        return StepsFile(header, tuple(works), tuple(problems))

    def _forget_another(self, file: _WordFile, header: Header) -> None:
        # The number of a removed file is soon given to another, so its process counts, too.
        identity = (*file.identity(), header.pid, header.moment_unix_ns, header.started_mono_ns)
        size, before = file.size(), self._size
        if identity != self._identity or size < before:
            self._known.clear()
        self._identity, self._size = identity, size

    def _work(self, file: _WordFile, index: int) -> WorkRecord | str:
        found = _work(file, index, self._known.pop(index, None), self._keep_steps)
        if isinstance(found, str):
            return found
        self._known[index] = found
        return found.record


def read_steps(path: Path) -> StepsFile:
    """Read header and works.

    Raises UnreadableInput when the file is absent or is no steps.bin of layout 1.
    """
    return StepsReader(path).read()


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


def _opened(path: Path) -> _WordFile:
    try:
        return _WordFile(path)
    except OSError as exc:
        raise UnreadableInput(f"{path} cannot be opened: {exc.strerror or exc}.") from exc


def _header(file: _WordFile) -> Header:
    words = _integers(file.words(0, HEADER_WORDS))
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
        request_sequence=words[32],
        request_seen=words[40],
        request_left=words[41],
    )


def _completed(file: _WordFile, header: Header) -> int:
    heads = (file.words(_work_at(index), 4) for index in range(header.works_in_use))
    return sum(max(int(h[1] - h[2]), 0) for h in heads if len(h) == 4)


def _work_at(index: int) -> int:
    return HEADER_WORDS + index * WORK_WORDS


@dataclass(frozen=True, slots=True)
class _KnownWork:
    """What has been read of a work: its first words, the active slot, steps of the ring."""

    head: list[int]
    slot: Words
    steps: RecentSteps
    record: WorkRecord


def _work(
    file: _WordFile, index: int, known: _KnownWork | None, keep_steps: int
) -> _KnownWork | str:
    """Return the work, or what is wrong with it; of what is known already only the news are read.

    The order of reading makes it safe against a live writer. The slot is read first: the steps
    after it are in the ring. The count comes next: rows below it are whole. The count is read
    again last: rows which the writer may have overwritten meanwhile are left out.
    """
    at = _work_at(index)
    head = _head(file, at)
    if known is not None and head == known.head and _end(known.steps) == head[1]:
        return known
    slot = _known_slot(file, at, head, known)
    if slot is None:
        slot = _slot(file, at)
        head = _head(file, at)
    if slot is None:
        return "has no whole aggregate"
    if len(head) < HEAD_WORDS:
        return "is beyond the end of the file"
    # A live writer notes that a step raised before it counts the step.
    if not 0 <= head[2] <= head[1] + 1 or not 0 <= head[0] < len(KINDS):
        return f"makes no sense: kind {head[0]}, {head[1]} executed, {head[2]} raised"
    folded = min(max(int(slot[0]), 0), head[1])
    # The last folded step too: the first gap after the slot begins with its end.
    needed = min(max(head[1] - keep_steps, 0), max(folded - 1, 0))
    steps = _steps(file, at, head[1], needed, None if known is None else known.steps)
    record = _record(file, index, head, slot, steps, keep_steps, known)
    return _KnownWork(head, slot, steps, record)


def _record(
    file: _WordFile,
    index: int,
    head: list[int],
    slot: Words,
    steps: RecentSteps,
    keep_steps: int,
    known: _KnownWork | None,
) -> WorkRecord:
    at, executed = _work_at(index), head[1]
    times, gaps = _with_tail(slot, steps, executed)
    return WorkRecord(
        index=index,
        kind=KINDS[head[0]],
        name=file.text(at + 16, 32) if known is None else known.record.name,
        thread=file.text(at + 48, 16) if known is None else known.record.thread,
        thread_id=head[4],
        executed=executed,
        raised=min(head[2], executed),
        sampled=min(max(head[3], 0), executed),
        first_seen_ns=head[5],
        steps_per_execution=max(head[6], 1),
        optimizer_steps=head[7] if head[7] >= 0 else None,
        retraces=max(head[9], 0),
        steps=times,
        gaps=gaps,
        recent=_from(steps, max(executed - keep_steps, 0)),
    )


def _head(file: _WordFile, at: int) -> list[int]:
    return _integers(file.words(at, HEAD_WORDS))


def _integers(words: Words) -> list[int]:
    found: list[int] = words.tolist()
    return found


def _known_slot(
    file: _WordFile, at: int, head: list[int], known: _KnownWork | None
) -> Words | None:
    """Return the known slot while it is the active one: it is written only while it is not."""
    if known is None or len(head) < HEAD_WORDS or head[8] != known.head[8] or head[8] not in (0, 1):
        return None
    folded = file.words(at + SLOTS_WORD + head[8] * SLOT_WORDS, 1)
    return known.slot if folded.tolist() == [known.slot[0]] else None


def _slot(file: _WordFile, at: int) -> Words | None:
    """Return the active aggregate slot, read while it stayed active."""
    for _ in range(SLOT_ATTEMPTS):
        active = file.words(at + 8, 1)
        if len(active) != 1 or active[0] not in (0, 1):
            return None
        slot = file.words(at + SLOTS_WORD + int(active[0]) * SLOT_WORDS, SLOT_WORDS)
        if len(slot) < SLOT_WORDS:
            return None
        if file.words(at + 8, 1).tolist() == active.tolist():
            return slot
    return None


def _steps(
    file: _WordFile, at: int, executed: int, needed: int, known: RecentSteps | None
) -> RecentSteps:
    """Return the steps from `needed` on, those that are not known from the ring."""
    known_end = 0 if known is None else _end(known)
    if known is None or not known.first_step <= needed <= known_end <= executed:
        return _ring_steps(file, at, executed, needed)
    news = _ring_steps(file, at, executed, known_end)
    if news.first_step > known_end:
        return news
    old = _from(known, needed)
    return RecentSteps(
        first_step=old.first_step,
        start_ns=np.concatenate([old.start_ns, news.start_ns]),
        end_ns=np.concatenate([old.end_ns, news.end_ns]),
        sampled=np.concatenate([old.sampled, news.sampled]),
        raised=np.concatenate([old.raised, news.raised]),
    )


def _end(steps: RecentSteps) -> int:
    return steps.first_step + len(steps.start_ns)


def _from(steps: RecentSteps, first_step: int) -> RecentSteps:
    skip = max(first_step - steps.first_step, 0)
    if skip == 0:
        return steps
    return RecentSteps(
        first_step=steps.first_step + skip,
        start_ns=steps.start_ns[skip:],
        end_ns=steps.end_ns[skip:],
        sampled=steps.sampled[skip:],
        raised=steps.raised[skip:],
    )


def _ring_steps(file: _WordFile, at: int, executed: int, first: int) -> RecentSteps:
    """Return the steps from `first` on, as far back as the ring has them."""
    first = max(first, executed - RING_STEPS)
    rows = _ring(file, at + RING_WORD, first, executed)
    executed_since = max(file.words(at + 1, 1).tolist(), default=executed)
    # The writer may be filling the row of step `executed_since` now: the step a ring before it
    # is lost.
    lost = min(max(executed_since + 1 - RING_STEPS - first, 0), executed - first)
    start_ns, end_words = rows[lost:, 0], rows[lost:, 1]
    return RecentSteps(
        first_step=first + lost,
        start_ns=start_ns,
        end_ns=end_words & TIME_MASK,
        sampled=(end_words & SAMPLED_BIT) != 0,
        raised=(end_words & RAISED_BIT) != 0,
    )


def _ring(file: _WordFile, at: int, first: int, end: int) -> Words:
    """Return the rows of steps `first` to `end`; fewer where the file ends before."""
    slot = first % RING_STEPS
    before_wrap = min(end - first, RING_STEPS - slot)
    words = file.words(at + 2 * slot, 2 * before_wrap)
    rest = end - first - before_wrap
    if rest > 0 and len(words) == 2 * before_wrap:
        words = np.concatenate([words, file.words(at, 2 * rest)])
    return words[: len(words) // 2 * 2].reshape(-1, 2)


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
