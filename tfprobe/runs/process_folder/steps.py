"""Read steps.bin, also while its process writes it, and after a kill at any moment.

docs/run-directory.md fixes the layout. A reader trusts nothing in the file: it checks every number
against the size of the file before it uses it. Repeated reads read what is new.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tfprobe.errors import Missing
from tfprobe.profile import profile
from tfprobe.profile.profile import JAX_KINDS, Durations, Loop, RecentSteps
from tfprobe.runs.process_folder.queued_steps import finished
from tfprobe.runs.process_folder.steps_layout import (
    BUCKETS,
    HEAD_WORDS,
    KINDS,
    LOOK_WORD,
    NEW_THREAD_BIT,
    QUEUES_WORD,
    RAISED_BIT,
    RING_STEPS,
    RING_WORD,
    SAMPLED_BIT,
    SLOT_ATTEMPTS,
    SLOT_WORDS,
    SLOTS_WORD,
    THREADS_WORD,
    TIME_MASK,
    WAITED_BIT,
    WATCHED_BIT,
    Header,
    WordFile,
    Words,
    header_of,
    integers,
    loop_at,
    opened,
)

# Why steps were counted and not timed.
COULD_NOT_GROW = "steps.bin could not grow (the disk was full, or the job closed the file)"


@dataclass(frozen=True, slots=True)
class StepsFile:
    """Everything read from one steps.bin: its loops as those of process 0.

    `problems` says what could not be used.
    """

    header: Header
    loops: tuple[Loop, ...]
    problems: tuple[str, ...]

    @property
    def last_sign_mono_ns(self) -> int:
        """Return when the process last noted anything; its header is up to 1024 steps behind."""
        ends = (int(loop.recent.end_ns[-1]) for loop in self.loops if len(loop.recent.end_ns))
        return max((self.header.last_activity_mono_ns, *ends))


class StepsReader:
    """Read one steps.bin repeatedly: each result is complete, but only what is new is read.

    The file is opened each time: an open file would hide that it was removed or replaced, and on a
    network file system what is new in it.
    """

    def __init__(self, path: Path, *, keep_steps: int = RING_STEPS) -> None:
        """Remember of each loop its latest `keep_steps` steps, if the file still has them."""
        self._path = path
        self._keep_steps = keep_steps
        self._identity: tuple[int, ...] = ()
        self._size = 0
        self._known: dict[int, KnownLoop] = {}

    def read(self) -> StepsFile:
        """Return the header and the loops as they are now.

        Raises UnreadableInput when the file is absent or is no steps.bin of layout 1.
        """
        loops: list[Loop] = []
        problems: list[str] = []
        with opened(self._path) as file:
            header = header_of(file)
            self._forget_another(file, header)
            for index in range(header.loops_in_use):
                block = self._loop(file, header, index)
                if isinstance(block, Loop):
                    loops.append(block)
                else:
                    problems.append(f"{self._path.name}: work {index} {block}")
        problems.extend(_untimed(header))
        return StepsFile(header, tuple(loops), tuple(problems))

    def _forget_another(self, file: WordFile, header: Header) -> None:
        # The inode of a removed file is soon reused, so the identity includes the process.
        identity = (*file.identity(), header.pid, header.moment_unix_ns, header.started_mono_ns)
        size, before = file.size(), self._size
        if identity != self._identity or size < before:
            self._known.clear()
        self._identity, self._size = identity, size

    def _loop(self, file: WordFile, header: Header, index: int) -> Loop | str:
        block = read_loop(file, header, index, self._known.pop(index, None), self._keep_steps)
        if isinstance(block, str):
            return block
        self._known[index] = block
        return block.loop


class LoopsOfProcess:
    """Loops with the number of their process; one that has not changed stays the same object."""

    def __init__(self) -> None:
        """Begin with no loops."""
        # By the identity of the loop that was read, which is kept so that no other can have it.
        self._loops: dict[int, tuple[Loop, Loop]] = {}

    def numbered(self, loops: Iterable[Loop], process: int) -> tuple[Loop, ...]:
        """Return these loops of process 0 as loops of `process`."""
        before = self._loops
        self._loops = {}
        for loop in loops:
            _, numbered = before.get(id(loop), (loop, loop))
            if numbered.process != process:
                numbered = replace(loop, process=process)
            self._loops[id(loop)] = loop, numbered
        return tuple(numbered for _, numbered in self._loops.values())


def read_steps(path: Path) -> StepsFile:
    """Read the header and the loops.

    Raises UnreadableInput when the file is absent or is no steps.bin of layout 1.
    """
    return StepsReader(path).read()


def _untimed(header: Header) -> list[str]:
    """Return the problem of steps that were counted but had no room in the file."""
    steps, threads = header.untimed_steps, max(header.untimed_threads, 1)
    if not steps:
        return []
    of = f"{steps:,} step{'s' * (steps > 1)} of {threads:,} thread{'s' * (threads > 1)}"
    were = "were" if steps > 1 else "was"
    return [f"{of} {were} not timed: {COULD_NOT_GROW}"]


def bucket_of(duration_ns: Words) -> Words:
    """Return the histogram bucket of each duration: 16 per octave from 1 ns, the last one open."""
    buckets: Words = np.minimum(profile.bucket_of(duration_ns), BUCKETS - 1)
    return buckets


@dataclass(frozen=True, slots=True)
class KnownLoop:
    """What has been read of a loop: its first words, the active slot, and steps of the ring."""

    head: list[int]
    slot: Words
    steps: RecentSteps
    loop: Loop


def read_loop(
    file: WordFile, header: Header, index: int, known: KnownLoop | None, keep_steps: int
) -> KnownLoop | str:
    """Return the loop as one of process 0, or what is wrong with it; only what is new is read.

    The order of reading makes this safe while the process writes. First the slot: the steps after
    it are in the ring. Then the count: the rows below it are complete. Last the count again: rows
    that the writer may have overwritten in between are left out.
    """
    at = loop_at(index)
    head = _head(file, at)
    is_over = known is not None and (known.loop.queue is None or not known.loop.queue.unfinished)
    if known is not None and is_over and head == known.head and _end(known.steps) == head[1]:
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
    loop = _loop(file, header, index, head, slot, steps, keep_steps, known)
    return KnownLoop(head, slot, steps, loop)


_NO_COUNTER = Missing("the optimizer has no counter the agent could read")


def _loop(
    file: WordFile,
    header: Header,
    index: int,
    head: list[int],
    slot: Words,
    steps: RecentSteps,
    keep_steps: int,
    known: KnownLoop | None,
) -> Loop:
    at, executed = loop_at(index), head[1]
    queue, unfinished = None, 0
    # Some loops of JAX had no room to say that they queue their steps.
    if head[QUEUES_WORD] or KINDS[head[0]] in JAX_KINDS:
        queue, steps, slot = finished(head, steps, slot)
        unfinished = queue.unfinished
    else:
        steps = replace(steps, waited=np.zeros(0, dtype=np.bool_))
    times, gaps = _with_tail(slot, steps, executed - unfinished)
    return Loop(
        process=0,
        index=index,
        kind=KINDS[head[0]],
        name=file.text(at + 16, 32) if known is None else known.loop.name,
        thread=(file.text(at + 48, 16) or str(head[4])) if known is None else known.loop.thread,
        executed=executed,
        raised=min(head[2], executed),
        sampled=min(max(head[3], 0), executed),
        retraces=max(head[9], 0),
        steps_per_execution=max(head[6], 1),
        optimizer_steps=head[7] if head[7] >= 0 else _NO_COUNTER,
        times=times,
        gaps=gaps,
        recent=steps.since(max(executed - keep_steps, 0)),
        first_seen_ns=header.unix_ns(head[5]) if head[5] else 0,
        threads=max(1, head[THREADS_WORD]),
        queue=queue,
    )


def _head(file: WordFile, at: int) -> list[int]:
    words = integers(file.words(at, HEAD_WORDS))
    words[LOOK_WORD : LOOK_WORD + 1] = [0] * (len(words) > LOOK_WORD)
    return words


def _known_slot(file: WordFile, at: int, head: list[int], known: KnownLoop | None) -> Words | None:
    """Return the known slot while it is the active one: it is written only while it is not."""
    if known is None or len(head) < HEAD_WORDS or head[8] != known.head[8] or head[8] not in (0, 1):
        return None
    folded = file.words(at + SLOTS_WORD + head[8] * SLOT_WORDS, 1)
    return known.slot if folded.tolist() == [known.slot[0]] else None


def _slot(file: WordFile, at: int) -> Words | None:
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
    file: WordFile, at: int, executed: int, needed: int, known: RecentSteps | None
) -> RecentSteps:
    """Return the steps from `needed` on, those that are not known from the ring.

    The last known step is read again: its writer may mark it just after it has counted it. So are
    queued steps that were not over, which end with a wait.
    """
    known_end = 0 if known is None else _settled(known)
    if known is None or not known.first_step <= needed <= known_end <= executed:
        return _ring_steps(file, at, executed, needed)
    news = _ring_steps(file, at, executed, known_end)
    if news.first_step > known_end:
        return news
    old = known.since(needed).until(known_end)
    return RecentSteps(
        first_step=old.first_step,
        start_ns=np.concatenate([old.start_ns, news.start_ns]),
        end_ns=np.concatenate([old.end_ns, news.end_ns]),
        sampled=np.concatenate([old.sampled, news.sampled]),
        raised=np.concatenate([old.raised, news.raised]),
        new_thread=np.concatenate([old.new_thread, news.new_thread]),
        watched=np.concatenate([old.watched, news.watched]),
        waited=np.concatenate([old.waited, news.waited]),
    )


def _settled(steps: RecentSteps) -> int:
    """Return the step from which on steps must be read again."""
    waited = np.flatnonzero(steps.waited)
    count = int(waited[-1]) if len(waited) else len(steps.start_ns) - 1
    return steps.first_step + max(count, 0)


def _end(steps: RecentSteps) -> int:
    return steps.first_step + len(steps.start_ns)


def _ring_steps(file: WordFile, at: int, executed: int, first: int) -> RecentSteps:
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
        new_thread=(end_words & NEW_THREAD_BIT) != 0,
        watched=end_words & WATCHED_BIT != 0,
        waited=end_words & WAITED_BIT != 0,
    )


def _ring(file: WordFile, at: int, first: int, end: int) -> Words:
    """Return the rows of steps `first` to `end`; fewer where the file ends before."""
    slot = first % RING_STEPS
    before_wrap = min(end - first, RING_STEPS - slot)
    words = file.words(at + 2 * slot, 2 * before_wrap)
    rest = end - first - before_wrap
    if rest > 0 and len(words) == 2 * before_wrap:
        words = np.concatenate([words, file.words(at, 2 * rest)])
    return words[: len(words) // 2 * 2].reshape(-1, 2)


def _with_tail(slot: Words, recent: RecentSteps, executed: int) -> tuple[Durations, Durations]:
    """Add the steps that are not folded yet, which are at the end of the ring."""
    folded = min(max(int(slot[0]), 0), executed)
    skip = max(folded - recent.first_step, 0)
    step_ns = np.maximum(recent.end_ns - recent.start_ns, 0)[skip:]
    # The first gap of the tail begins at the last folded step; step 0 has no gap before it.
    gap_from = max(skip, 1)
    gap_ns = np.maximum(recent.start_ns[gap_from:] - recent.end_ns[gap_from - 1 : -1], 0)
    gap_ns = gap_ns[~recent.new_thread[gap_from:]]
    steps = _added(slot[0:4], slot[8 : 8 + BUCKETS], step_ns)
    gaps = _added(slot[4:8], slot[8 + BUCKETS :], gap_ns)
    return steps, gaps


def _added(facts: Words, buckets: Words, tail_ns: Words) -> Durations:
    count, sum_ns, min_ns, max_ns = (int(fact) for fact in facts)
    counts = np.bincount(bucket_of(tail_ns), minlength=BUCKETS).astype(np.int64)
    if count <= 0:
        count, sum_ns, min_ns, max_ns = 0, 0, np.iinfo(np.int64).max, 0
        buckets = np.zeros(BUCKETS, dtype=np.int64)
    if len(tail_ns):
        min_ns = min(min_ns, int(tail_ns.min()))
        max_ns = max(max_ns, int(tail_ns.max()))
    total = count + len(tail_ns)
    return Durations(
        count=total,
        sum_ns=sum_ns + int(tail_ns.sum()),
        min_ns=min_ns if total else 0,
        max_ns=max_ns,
        buckets=np.maximum(buckets, 0) + counts,
    )
