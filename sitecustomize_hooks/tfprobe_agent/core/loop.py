"""Steps of threads and names for which steps.bin has no block of their own: one block a kind, written by all of them.

A step wrapper writes into what is its thread's alone, without a lock. So each thread gets a work of its own here, too,
with a ring in memory; its `stored`, called after every step, hands the step on under a lock.
"""

import array
import functools
import sys
import threading

from tfprobe_agent.unpatched import UNPATCHED

from .steps_layout import (
    ACTIVE_WORD,
    AGGREGATE_WORDS,
    AGGREGATES_AT,
    BUCKET_OFFSET,
    BUCKETS,
    COUNT,
    FOLD,
    FOLD_NS,
    HEADER_WORDS,
    LOOK,
    NEVER,
    NEW_THREAD_FLAG,
    RAISED,
    RAISED_FLAG,
    REFUSED_NS,
    RING_AT,
    RING_MASK,
    RING_STEPS,
    SLOT,
    THREADS,
    TIME_MASK,
    TRACED,
    TRACED_FLAG,
    UNTIMED_STEPS,
    WATCHED_FLAG,
    WORD,
)


class Loop:
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
        "last_traced",
        "long_gaps",
        "marks",
        "n",
        "name",
        "next_check",
        "next_fold",
        "next_foreseen_ns",
        "next_trace",
        "next_watch",
        "owner",
        "poll_at",
        "request_seen",
        "retraces",
        "ring",
        "ring_at",
        "shared",
        "starts_thread",
        "totals",
        "traced_steps",
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
        self.next_check = 0  # the step before which to look: the next of the two below
        self.next_trace = 0
        self.next_watch = NEVER
        self.long_gaps = {}  # the latest, in ns by how many steps there had been
        self.foreseen = 0  # gaps watched because they were foreseen, what the latest cost, and from when on the next
        self.foreseen_cost_ns = 0
        self.next_foreseen_ns = 0
        self.watch_cost_ns = 0  # of the latest other watch of its own
        self.next_fold = FOLD  # when to call `stored` next
        self.request_seen = -1  # so that the first step looks: an order may have come before it
        self.traced_steps = 0
        self.last_traced = -1
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
        self.next_check = min(step, self.next_watch)

    def watch_at(self, step):
        """Ask whether to watch the gap after this step."""
        self.next_watch = step
        self.next_check = min(step, self.next_trace)

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
            traced, self.collected = self.collected, None
            traced.abandon()
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
            self.flagged = self.n, raised, words[base + TRACED] + (flags & TRACED_FLAG != 0)
        words[base + RAISED], words[base + TRACED] = self.flagged[1:]

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
        began_ns = UNPATCHED.monotonic_ns()
        totals = self.totals[:]
        folded = totals[0]
        first = (folded & RING_MASK) * 2
        block = self.ring[first : first + 2 * FOLD]
        last_end_ns = self.ring[((folded - 1) & RING_MASK) * 2 + 1] & TIME_MASK if folded else 0
        numpy = sys.modules.get("numpy")
        fold = _fold if numpy is None else functools.partial(_fold_with_numpy, numpy)
        last_end_ns = fold(totals, block, last_end_ns)
        slot = 1 - self.words[self.base + SLOT]
        offset = self.base + AGGREGATES_AT + slot * AGGREGATE_WORDS
        self.words[offset : offset + AGGREGATE_WORDS] = memoryview(totals)
        self.words[self.base + SLOT] = slot
        self.words[ACTIVE_WORD] = last_end_ns
        self.words[FOLD_NS] += UNPATCHED.monotonic_ns() - began_ns
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
            if not end & (TRACED_FLAG | RAISED_FLAG):
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


def _accumulate(totals, offset, buckets_offset, values):
    """Add values to (count, sum, min, max) at `at` and to the histogram at `buckets_at`."""
    _add_extremes(totals, offset, len(values), sum(values), min(values), max(values))
    for word in memoryview(array.array("d", values)).cast("B").cast("q"):
        bucket = (word >> 48) - BUCKET_OFFSET
        totals[buckets_offset + min(max(bucket, 0), BUCKETS - 1)] += 1


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


def _accumulate_with_numpy(numpy, totals, offset, buckets_offset, values):
    _add_extremes(totals, offset, len(values), int(values.sum()), int(values.min()), int(values.max()))
    buckets = (values.astype(numpy.float64).view(numpy.int64) >> 48) - BUCKET_OFFSET
    histogram = numpy.frombuffer(totals, dtype=numpy.int64)[buckets_offset : buckets_offset + BUCKETS]
    histogram += numpy.bincount(numpy.clip(buckets, 0, BUCKETS - 1), minlength=BUCKETS)


def _add_extremes(totals, offset, count, total, low, high):
    totals[offset + 2] = low if totals[offset] == 0 else min(totals[offset + 2], low)
    totals[offset + 3] = max(totals[offset + 3], high)
    totals[offset] += count
    totals[offset + 1] += total


FURTHER = "(further works)"
UNTIMED = "(untimed)"
# The last words of the header take what is stored of such works as of any other; they mean nothing to a reader.
_SCRATCH = HEADER_WORDS - 16


class SharedLoop(Loop):
    """A work whose steps are those of several threads, in the order in which they ended."""

    __slots__ = ("latest", "lock")

    def __init__(self, *args):
        Loop.__init__(self, *args)
        self.latest = None  # who recorded the step before

    def place(self, words, base):
        Loop.place(self, words, base)
        # Reentrant: a signal handler of the job may run a step in the middle of another.
        self.lock = threading.RLock()  # anew in a forked child, where its holder may be gone

    def record_from(self, forwarding, start_ns, end_ns, flags):
        """Append a step of one of the threads and return its number; between steps of two threads is no gap."""
        with self.lock:
            if self.latest is not forwarding:
                flags |= NEW_THREAD_FLAG
            self.ensure_recorded(start_ns, end_ns, flags)
            self.latest = forwarding
            return self.n - 1


class ForwardingLoop(Loop):
    """The work of one thread that hands each step on to a SharedWork."""

    __slots__ = ()

    def __init__(self, shared):
        Loop.__init__(self, shared.file, shared.index, shared.kind, shared.name, shared.base)
        self.shared = shared
        self.count_at = _SCRATCH + COUNT
        self.ring = memoryview(bytearray(2 * RING_STEPS * WORD)).cast("q")
        self.totals = None
        self._catch_up()

    def record(self, start_ns, end_ns, flags=0):
        step = self.shared.record_from(self, start_ns, end_ns, flags)
        self._catch_up()
        if self.after_first is not None:
            after_first, self.after_first = self.after_first, None
            after_first(self)
        return step

    def ensure_recorded(self, start_ns, end_ns, flags=0):
        self.record(start_ns, end_ns, flags)  # the shared work knows whether it has this step

    def stored(self):
        slot = ((self.n - 1) & RING_MASK) * 2
        self.record(self.ring[slot], self.ring[slot + 1])

    def _catch_up(self):
        self.n = self.shared.n
        self.next_check = self.shared.next_check
        self.next_fold = self.n + 1


class UntimedLoop(Loop):
    """The work of one thread for steps that steps.bin has no room for: their number is all that is kept."""

    __slots__ = ("_counted_ns", "_give_up_ns", "_lock", "_over")

    def __init__(self, file, kind, lock, now_ns, over):
        """Count under `lock`; call `over()` when it is time to look for room again."""
        Loop.__init__(self, file, -1, kind, UNTIMED, _SCRATCH)
        self.words[self.poll_at] = NEVER
        self.trace_at(NEVER)
        self.ring = memoryview(bytearray(4 * WORD)).cast("q")
        self.totals = None
        self.n, self.next_fold = 1, 2  # at every step; not 0, at which graphs would be collected
        self._lock = lock
        self._over = over
        self._give_up_ns = now_ns + REFUSED_NS
        self._counted_ns = 0  # when the latest step that is counted began

    def record(self, start_ns, end_ns, flags=0):
        with self._lock:
            if start_ns != self._counted_ns:
                self._counted_ns = start_ns
                self.file.add(UNTIMED_STEPS, 1)
        if end_ns >= self._give_up_ns:
            self._over()
        return 0

    def ensure_recorded(self, start_ns, end_ns, flags=0):
        self.record(start_ns, end_ns, flags)

    def stored(self):
        self.n = 1
        self.record(self.ring[2], self.ring[3])
