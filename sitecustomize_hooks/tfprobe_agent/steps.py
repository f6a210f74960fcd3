"""steps.bin: true counts and times of every step, in a file that survives any death of the process.

A step costs three stores into mapped memory; aggregates are folded from the ring every FOLD steps into the slot that is
not active, which then becomes active.
"""

import array
import functools
import mmap
import os
import sys

from .interruptions import let_through
from .originals import ORIGINAL, OpenFile
from .steps_layout import (
    ACTIVE_WORD,
    AGGREGATE_WORDS,
    AGGREGATES_AT,
    BUCKET_OFFSET,
    BUCKETS,
    COUNT,
    EXIT_MONO_WORD,
    EXIT_WORD,
    FILE_WORDS,
    FOLD,
    FOLD_NS,
    HEADER_WORDS,
    KINDS,
    LOOK,
    NEVER,
    NEW_THREAD_FLAG,
    OPTIMIZER_STEPS,
    PER_EXECUTION,
    RAISED,
    RAISED_FLAG,
    REFUSED_NS,
    REQUEST_WORK,
    RING_AT,
    RING_MASK,
    RING_STEPS,
    RUNNING,
    SAMPLED,
    SAMPLED_FLAG,
    SLOT,
    STARTED_WORD,
    STATE_WORD,
    THREAD_ID,
    THREADS,
    TIME_MASK,
    USED,
    WATCHED_FLAG,
    WORD,
    WORK_CAPACITY,
    WORK_WORDS,
)  # fmt: skip
from .unmapped import Exchange, is_remote


class StepsFile:
    """The file, mapped or not; `words` is a memoryview of signed 64-bit words."""

    def __init__(self, path, started_ns):
        self._file = OpenFile(path, os.O_RDWR | os.O_EXCL)
        self.capacity = WORK_CAPACITY
        self.mapping = self._exchange = None
        try:
            self.words = self._mapped()
        except (OSError, ValueError, TypeError):
            # On another machine, or a file system without shared mmap or allocation (some FUSE, 9p).
            let_through()
            memory = mmap.mmap(-1, FILE_WORDS * WORD, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            self.words = memoryview(memory).cast("q")
            self._exchange = Exchange(self._file, self.words)
        self.used = 0
        self._refused_until_ns = 0
        self._write_header(started_ns)

    def _mapped(self):
        size = FILE_WORDS * WORD
        descriptor = self._file.descriptor()
        if is_remote(descriptor):
            raise OSError(95, "a page of it may be lost")
        ORIGINAL.ftruncate(descriptor, size)
        # Allocated blocks cannot raise SIGBUS on a full disk; a sparse page can.
        ORIGINAL.fallocate(descriptor, 0, HEADER_WORDS * WORD)
        self.mapping = mmap.mmap(descriptor, size, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
        return memoryview(self.mapping).cast("q")

    def _write_header(self, started_ns):
        words = self.words
        words[1] = 1
        words[2] = HEADER_WORDS
        words[3] = self.capacity
        words[4] = WORK_WORDS
        words[5] = RING_STEPS
        words[6] = BUCKETS
        words[7] = ORIGINAL.getpid()
        words[8] = ORIGINAL.unix_ns()
        words[9] = ORIGINAL.monotonic_ns()
        words[STATE_WORD] = RUNNING
        words[STARTED_WORD] = started_ns
        words[ACTIVE_WORD] = words[9]
        words[REQUEST_WORK] = -1
        words[0] = int.from_bytes(b"TFPSTEP1", "little")
        self.write()

    def note_exit(self):
        """Note this moment as the end of the process, on both clocks: somebody may set the wall clock."""
        self.put(EXIT_MONO_WORD, ORIGINAL.monotonic_ns())
        self.put(EXIT_WORD, ORIGINAL.unix_ns())

    def add_work(self, kind, name, thread_name, thread_id, now_ns, make=None):
        """Allocate the next work block and return its Work, by `make`; None when the file or the disk is full."""
        if self.used >= self.capacity or now_ns < self._refused_until_ns:
            return None
        base = HEADER_WORDS + self.used * WORK_WORDS
        if self.mapping is not None:
            try:
                ORIGINAL.fallocate(self._file.descriptor(), base * WORD, WORK_WORDS * WORD)
            except OSError:
                let_through()
                self._refused_until_ns = now_ns + REFUSED_NS
                return None  # disk full, or closed by the job: the works so far go on
        words = self.words
        words[base] = KINDS.index(kind)
        words[base + THREAD_ID] = thread_id
        words[base + 5] = now_ns
        words[base + PER_EXECUTION] = 1
        words[base + OPTIMIZER_STEPS] = -1
        _put_text(words, base + 16, 32, name)
        _put_text(words, base + 48, 16, thread_name)
        words[base + THREADS] = 1
        work = (make or Work)(self, self.used, kind, name, base)
        self.used += 1
        words[USED] = self.used
        return work

    def look(self, now_ns):
        """Where the file is not mapped: write what is new and read what others write, if that is due."""
        if self._exchange is not None:
            self._exchange.look(now_ns)

    def write(self):
        """Where the file is not mapped: write what is new; tell whether all is in the file."""
        return self._exchange is None or self._exchange.write()

    def status_page(self):
        """Return a mapping of the first page, for the C library to store in when Python is gone; None without one."""
        if self.mapping is not None:
            return self.mapping
        try:
            # Just written, so the page is here: this close to the end its server is not asked again.
            return mmap.mmap(self._file.descriptor(), HEADER_WORDS * WORD) if self.write() else None
        except (OSError, ValueError):
            let_through()
            return None

    def leave(self, works):
        """In a forked child: what is still written here, by a step in whose midst it forked, stays in its memory."""
        self.words = self.scratch().words
        self._exchange = None
        for work in works:
            work.place(self.words, HEADER_WORDS)

    def scratch(self):
        """Return a file that is nowhere, with room for one work: to measure ourselves on."""
        return _Scratch()

    def add(self, word, amount):
        """Add to a counter of the header."""
        self.words[word] += amount

    def put(self, word, value):
        """Set a word of the header."""
        self.words[word] = value


class _Scratch:
    """Words in memory only, in the shape of a StepsFile."""

    def __init__(self):
        self.words = memoryview(bytearray((HEADER_WORDS + WORK_WORDS) * WORD)).cast("q")


class Work:
    """One kind of step in one thread, and where its numbers go."""

    __slots__ = (
        "after_first",
        "after_fold",
        "base",
        "collected",
        "cost_ns",
        "count_at",
        "declined",
        "file",
        "flagged",
        "foreseen",
        "foreseen_cost_ns",
        "index",
        "kind",
        "last_sampled",
        "long_gaps",
        "marks",
        "n",
        "name",
        "next_fold",
        "next_foreseen_ns",
        "next_sample",
        "next_trace",
        "next_watch",
        "owner",
        "poll_at",
        "request_seen",
        "retraces",
        "ring",
        "ring_at",
        "samples",
        "shared",
        "starts_thread",
        "totals",
        "watch_cost_ns",
        "words",
    )

    def __init__(self, file, index, kind, name, base):
        self.file = file
        self.index = index
        self.kind = kind
        self.name = name
        self.place(file.words, base)
        self.n = 0
        self.next_sample = 0  # the step before which to look: the next of the two below
        self.next_trace = 0
        self.next_watch = NEVER
        self.long_gaps = {}  # the latest, in ns by how many steps there had been
        self.foreseen = 0  # gaps watched because they were foreseen, what the latest cost, and from when on the next
        self.foreseen_cost_ns = 0
        self.next_foreseen_ns = 0
        self.watch_cost_ns = 0  # of the latest other watch of its own
        self.next_fold = FOLD  # when to call `stored` next
        self.request_seen = -1  # so that the first step looks: an order may have come before it
        self.samples = 0
        self.last_sampled = -1
        self.cost_ns = 0  # of the latest sample
        self.flagged = -1, 0, 0  # the latest step with flags, and how many there were of each flag with it
        self.retraces = 0
        self.declined = None, 0, 0  # why no sample was taken last, how often in a row, how often told
        self.owner = None
        self.after_first = None  # called with the work once, after its first step
        self.after_fold = None  # called with the work now and then: what is too dear to look at each step
        self.collected = None
        self.marks = None
        self.shared = None  # the Work that this one hands its steps to: see overflow
        self.starts_thread = False  # the next step is the first of another thread
        self.totals = array.array("q", bytes(AGGREGATE_WORDS * WORD))

    def place(self, words, base):
        """Store from now on in the block of these words that begins at `base`."""
        self.words = words
        self.base = base
        self.count_at = base + COUNT
        self.poll_at = base + LOOK
        self.ring_at = base + RING_AT
        self.ring = words[self.ring_at : self.ring_at + 2 * RING_STEPS]

    def trace_at(self, step):
        """Ask whether to trace before this step."""
        self.next_trace = step
        self.next_sample = min(step, self.next_watch)

    def watch_at(self, step):
        """Ask whether to watch the gap after this step."""
        self.next_watch = step
        self.next_sample = min(step, self.next_trace)

    def mark_watched(self, step):
        """Note that the gap after a step is watched, and longer by that."""
        self.ring[(step & RING_MASK) * 2 + 1] |= WATCHED_FLAG

    def record(self, start_ns, end_ns, flags=0):
        """Append one step and return its number; the count is stored last. The doors do the same inline."""
        slot = (self.n & RING_MASK) * 2
        self.ring[slot] = start_ns
        self.ring[slot + 1] = end_ns | flags
        if flags:
            self._count_flags(flags)
        self.n += 1
        self.words[self.count_at] = self.n
        step = self.n - 1
        if self.n >= self.next_fold:
            self.stored()
        return step

    def pass_on(self):
        """Go on for another thread: the one so far has ended, and what lies between the two is no gap."""
        if self.collected is not None:
            sample, self.collected = self.collected, None
            sample.abandon()
        self.marks = None
        self.starts_thread = True
        self.next_fold = self.n + 1
        self.words[self.base + THREADS] += 1

    def ensure_recorded(self, start_ns, end_ns, flags=0):
        """Record a step, also where an exception of the job has interrupted its recording at any instruction."""
        if self.n == 0 or self.ring[((self.n - 1) & RING_MASK) * 2] != start_ns:
            self.record(start_ns, end_ns, flags)
            return
        self.words[self.count_at] = self.n
        if self.n >= self.next_fold:
            self.stored()

    def _count_flags(self, flags):
        """Count a step that raised or was sampled; once, if this is done again for the same step."""
        words, base = self.words, self.base
        if self.flagged[0] != self.n:
            raised = words[base + RAISED] + (flags & RAISED_FLAG != 0)
            self.flagged = self.n, raised, words[base + SAMPLED] + (flags & SAMPLED_FLAG != 0)
        words[base + RAISED], words[base + SAMPLED] = self.flagged[1:]

    def stored(self):
        """Do what follows a stored step now and then: fold a full block."""
        if self.starts_thread:
            self.starts_thread = False
            self.ring[((self.n - 1) & RING_MASK) * 2 + 1] |= NEW_THREAD_FLAG
        if self.after_first is not None:
            after_first, self.after_first = self.after_first, None
            after_first(self)
        if self.n - self.totals[0] >= FOLD:
            self.fold()
            self.look()
            self.words[self.poll_at] = 0  # whatever somebody wrote there
        self.next_fold = (self.n // FOLD + 1) * FOLD

    def look(self):
        """Do now what is done at folds only."""
        if self.after_fold is not None:
            self.after_fold(self)

    def fold(self):
        """Fold the FOLD steps after the last fold into the aggregates and switch slots.

        Nothing counts before the last line: a fold that an exception of the job interrupts is done again.
        """
        began_ns = ORIGINAL.monotonic_ns()
        totals = self.totals[:]
        folded = totals[0]
        first = (folded & RING_MASK) * 2
        block = self.ring[first : first + 2 * FOLD]
        last_end_ns = self.ring[((folded - 1) & RING_MASK) * 2 + 1] & TIME_MASK if folded else 0
        numpy = sys.modules.get("numpy")
        fold = _fold if numpy is None else functools.partial(_fold_with_numpy, numpy)
        last_end_ns = fold(totals, block, last_end_ns)
        slot = 1 - self.words[self.base + SLOT]
        at = self.base + AGGREGATES_AT + slot * AGGREGATE_WORDS
        self.words[at : at + AGGREGATE_WORDS] = memoryview(totals)
        self.words[self.base + SLOT] = slot
        self.words[ACTIVE_WORD] = last_end_ns
        self.words[FOLD_NS] += ORIGINAL.monotonic_ns() - began_ns
        self.totals = totals

    def latest_ns(self):
        """Return the time of the latest step, 0 before the first."""
        slot = ((self.n - 1) & RING_MASK) * 2
        return (self.ring[slot + 1] & TIME_MASK) - self.ring[slot]

    def latest_end_ns(self):
        """Return when the latest step ended, 0 before the first."""
        return self.ring[((self.n - 1) & RING_MASK) * 2 + 1] & TIME_MASK

    def usual_cycle_ns(self):
        """Return the median time from the start of a step to the next, of the latest that there are; 0 of one."""
        steps = range(max(0, self.n - 17), self.n)
        starts = [self.ring[(step & RING_MASK) * 2] for step in steps]
        cycles = sorted(later - earlier for earlier, later in zip(starts, starts[1:]))
        return cycles[len(cycles) // 2] if cycles else 0

    def usual_ns(self):
        """Return the median of the last 32 steps that were neither sampled nor raised, or None."""
        times = []
        for step in range(self.n - 1, max(-1, self.n - 33), -1):
            slot = (step & RING_MASK) * 2
            end = self.ring[slot + 1]
            if not end & (SAMPLED_FLAG | RAISED_FLAG):
                times.append((end & TIME_MASK) - self.ring[slot])
        return sorted(times)[len(times) // 2] if times else None


def _fold(totals, block, last_end_ns):
    """Add a block of (start, end) pairs to the aggregates; return the end of the last. For jobs without numpy."""
    words = block.tolist()
    starts = words[::2]
    ends = [end & TIME_MASK for end in words[1::2]]
    has_gap = [not end & NEW_THREAD_FLAG for end in words[1::2]]
    has_gap[0] = has_gap[0] and last_end_ns != 0
    before = [last_end_ns] + ends[:-1]
    _accumulate(totals, 0, 8, [end - start for start, end in zip(starts, ends)])
    gaps = [start - end for start, end, known in zip(starts, before, has_gap) if known]
    if gaps:
        _accumulate(totals, 4, 8 + BUCKETS, gaps)
    return ends[-1]


def _accumulate(totals, at, buckets_at, values):
    """Add values to (count, sum, min, max) at `at` and to the histogram at `buckets_at`."""
    _add_extremes(totals, at, len(values), sum(values), min(values), max(values))
    for word in memoryview(array.array("d", values)).cast("B").cast("q"):
        bucket = (word >> 48) - BUCKET_OFFSET
        totals[buckets_at + min(max(bucket, 0), BUCKETS - 1)] += 1


def _fold_with_numpy(numpy, totals, block, last_end_ns):
    """Do what `_fold` does, ten times faster, with the numpy that the job has imported anyway."""
    pairs = numpy.frombuffer(block, dtype=numpy.int64).reshape(-1, 2)
    starts = pairs[:, 0]
    ends = pairs[:, 1] & TIME_MASK
    has_gap = pairs[:, 1] & NEW_THREAD_FLAG == 0
    has_gap[0] &= last_end_ns != 0
    before = numpy.empty_like(ends)
    before[1:] = ends[:-1]
    before[0] = last_end_ns
    _accumulate_with_numpy(numpy, totals, 0, 8, ends - starts)
    if has_gap.any():
        _accumulate_with_numpy(numpy, totals, 4, 8 + BUCKETS, (starts - before)[has_gap])
    return int(ends[-1])


def _accumulate_with_numpy(numpy, totals, at, buckets_at, values):
    _add_extremes(totals, at, len(values), int(values.sum()), int(values.min()), int(values.max()))
    buckets = (values.astype(numpy.float64).view(numpy.int64) >> 48) - BUCKET_OFFSET
    histogram = numpy.frombuffer(totals, dtype=numpy.int64)[buckets_at : buckets_at + BUCKETS]
    histogram += numpy.bincount(numpy.clip(buckets, 0, BUCKETS - 1), minlength=BUCKETS)


def _add_extremes(totals, at, count, total, low, high):
    totals[at + 2] = low if totals[at] == 0 else min(totals[at + 2], low)
    totals[at + 3] = max(totals[at + 3], high)
    totals[at] += count
    totals[at + 1] += total


def _put_text(words, at, count, text):
    """Store text as UTF-8 in `count` words, cut to whole characters and NUL padded."""
    data = text.encode("utf-8", "replace")[: count * WORD - 1].decode("utf-8", "ignore").encode("utf-8")
    words[at : at + count] = memoryview(array.array("q", data.ljust(count * WORD, b"\0")))
