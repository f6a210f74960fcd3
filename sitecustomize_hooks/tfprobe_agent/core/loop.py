"""A loop: one kind of step in one thread, and how its steps are stored, folded and counted.

For threads and names without a block of their own in steps.bin there is one block per kind, written by all of them. A
step wrapper writes to what its thread alone uses, without a lock. So each thread has a loop of its own here, too, with
a ring in memory; its `stored`, called after every step, passes the step on under a lock. Most steps are counted inline,
in `step_wrapper.py`; `Loop.record` does the same for the others.
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
    QUEUES,
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
    WAITED_FLAG,
    WAITS,
    WATCHED_FLAG,
    WORD,
)

RATIO_BITS = 16


class Loop:
    """One kind of step in one thread, and where its numbers are stored."""

    __slots__ = (
        "after_first",
        "after_fold",
        "base",
        "collected",
        "cost_ns",
        "cost_step_ns",
        "count_at",
        "declined",
        "drained_ns",
        "file",
        "first_call_ns",
        "flagged",
        "foreseen",
        "foreseen_cost_ns",
        "had_others",
        "index",
        "kind",
        "last_traced",
        "long_gaps",
        "mark_ns",
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
        "waited",
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
        self.next_check = 0  # the step before which to look: the minimum of the next two
        self.next_trace = 0
        self.next_watch = NEVER
        self.long_gaps = {}  # the latest ones, in ns by the number of steps before them
        # gaps watched because they were foreseen, the cost of the latest, and from when on the next may be
        self.foreseen = 0
        self.foreseen_cost_ns = 0
        self.next_foreseen_ns = 0
        self.watch_cost_ns = 0  # of the latest other watch
        self.next_fold = FOLD  # when to call `stored` next
        self.request_seen = -1  # so that the first step looks: a trace request may have come before it
        self.traced_steps = 0
        self.last_traced = -1
        self.cost_ns = 0  # of the latest traced step
        self.cost_step_ns = 0  # how long that step took
        self.flagged = -1, 0, 0  # the latest step with flags, and the counts of each flag including it
        self.retraces = 0
        self.waited = 0  # steps up to the latest that the job waited for, if calls only queue them
        self.drained_ns = 0  # of the latest traced step, until its results were there
        self.first_call_ns = 0
        self.had_others = 0  # steps up to the latest whose time includes that of other loops
        self.declined = None, 0, 0  # why tracing was declined last, how often in a row, how often that was written
        self.owner = None
        self.after_first = None  # called with the loop once, after its first step
        self.after_fold = None  # called with the loop now and then: checks that are too expensive for each step
        self.collected = None
        self.mark_ns = None
        self.shared = None  # the SharedLoop that this one passes its steps to
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
        """Ask the schedule before this step whether to trace it."""
        self.next_trace = step
        self.next_check = min(step, self.next_watch)

    def watch_at(self, step):
        """Ask the gap plan before this step whether to watch the gap after it."""
        self.next_watch = step
        self.next_check = min(step, self.next_trace)

    def mark_watched(self, step):
        """Note that the gap after a step is watched, and longer because of that."""
        self.ring[(step & RING_MASK) * 2 + 1] |= WATCHED_FLAG

    def record(self, start_ns, end_ns, flags=0):
        """Append one step and return its number; the count is stored last. The step wrappers do the same inline."""
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
        """Continue for another thread: the previous one has ended, and the time between the two is no gap."""
        if self.collected is not None:
            traced, self.collected = self.collected, None
            traced.abandon()
        self.mark_ns = None
        self.starts_thread = True
        self.next_fold = self.n + 1
        self.words[self.base + THREADS] += 1

    def ensure_recorded(self, start_ns, end_ns, flags=0):
        """Record a step, even if an exception of the job has interrupted its recording at any instruction."""
        if self.n == 0 or self.ring[((self.n - 1) & RING_MASK) * 2] != start_ns:
            self.record(start_ns, end_ns, flags)
            return
        self.words[self.count_at] = self.n
        if self.n >= self.next_fold:
            self.stored()

    def _count_flags(self, flags):
        """Count a step that raised or was traced; once, even if called again for the same step."""
        words, base = self.words, self.base
        if self.flagged[0] != self.n:
            raised = words[base + RAISED] + (flags & RAISED_FLAG != 0)
            self.flagged = self.n, raised, words[base + TRACED] + (flags & TRACED_FLAG != 0)
        words[base + RAISED], words[base + TRACED] = self.flagged[1:]

    def stored(self):
        """Do what follows a stored step now and then, mainly folding a full block."""
        if self.starts_thread:
            self.starts_thread = False
            self.ring[((self.n - 1) & RING_MASK) * 2 + 1] |= NEW_THREAD_FLAG
        if self.after_first is not None:
            after_first, self.after_first = self.after_first, None
            after_first(self)
        steps = self._foldable()
        if steps:
            self.fold(steps)
            self.look()
            self.words[self.poll_at] = 0  # whatever somebody wrote there
        self.next_fold = (self.n // FOLD + 1) * FOLD

    def look(self):
        """Run the checks that are otherwise run at folds."""
        if self.after_fold is not None:
            self.after_fold(self)

    def _foldable(self):
        """Return how many steps to fold now, of which each is one that is not queued any more, where there are such."""
        steps = self.n - self.totals[0]
        if steps < FOLD or not self.words[self.base + QUEUES]:
            return FOLD if steps >= FOLD else 0
        return max(self.waited - self.totals[0], 0) or (steps if steps > RING_STEPS - 2 * FOLD else 0)

    def fold(self, steps=FOLD):
        """Fold the steps after the last fold into the aggregates and switch slots.

        Nothing counts before the last line: a fold that an exception of the job interrupts is repeated.
        """
        began_ns = UNPATCHED.monotonic_ns()
        totals = self.totals[:]
        folded = totals[0]
        block = self._block(folded, steps)
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

    def _block(self, first, steps):
        """Return the words of these steps, which may wrap around in the ring."""
        offset = (first & RING_MASK) * 2
        block = self.ring[offset : offset + 2 * steps]
        if not self.words[self.base + QUEUES]:
            return block  # FOLD of them, which never wrap
        words = block.tolist()
        words += self.ring[: 2 * steps - len(words)].tolist()
        drained_ns = 0 if self._waits_for_latest(words) else self.drained_ns
        return memoryview(array.array("q", spread_out(words, drained_ns)))

    def _waits_for_latest(self, words):
        """Return whether the job must have waited for the latest of queued steps, however short they are.

        It finds most values not there yet, on a device that keeps up with it, which has long run the steps before.
        """
        steps, marked = len(words) // 2, sum(word & WAITED_FLAG != 0 for word in words[1::2])
        is_slower = 10 * (words[-2] - words[0]) > 13 * self.drained_ns * (steps - 1)
        return is_slower and 2 * self.words[self.base + WAITS] * steps >= self.n * marked

    def latest_ns(self):
        """Return the duration of the latest step, 0 before the first."""
        slot = ((self.n - 1) & RING_MASK) * 2
        return (self.ring[slot + 1] & TIME_MASK) - self.ring[slot]

    def latest_end_ns(self):
        """Return when the latest step ended, 0 before the first."""
        return self.ring[((self.n - 1) & RING_MASK) * 2 + 1] & TIME_MASK

    def usual_cycle_ns(self):
        """Return the median time between the starts of the latest steps; 0 if there is one step or none."""
        steps = range(max(0, self.n - 17), self.n)
        starts = [self.ring[(step & RING_MASK) * 2] for step in steps]
        cycles = sorted(later - earlier for earlier, later in zip(starts, starts[1:]))
        return cycles[len(cycles) // 2] if cycles else 0

    def usual_ns(self):
        """Return the median of the last 32 steps that were neither traced nor raised, or None.

        A queued step has a length of its own only if the job waited for it and for the one before.
        """
        times, is_queued = [], self.words[self.base + QUEUES]
        for step in range(self.n - 1, max(-1, self.n - 33), -1):
            slot = (step & RING_MASK) * 2
            end = self.ring[slot + 1]
            is_known = not is_queued or end & self.ring[((step - 1) & RING_MASK) * 2 + 1] & WAITED_FLAG
            if is_known and not end & (TRACED_FLAG | RAISED_FLAG):
                times.append((end & TIME_MASK) - self.ring[slot])
        return sorted(times)[len(times) // 2] if times else None

    def pace_ns(self):
        """Return how long a step usually takes, None if unknown; if steps are queued, with the time between them."""
        if not self.words[self.base + QUEUES]:
            return self.usual_ns()
        first = max(0, self.n - 32)
        return (self.latest_end_ns() - self.ring[(first & RING_MASK) * 2]) // (self.n - first) if self.n else None


def spread_out(words, drained_ns=0):
    """Return the (start, end) words of queued steps with the time of each run spread over its steps.

    A run ends with a step that the job waited for, or on another thread. A step takes its call, and an equal part of
    the rest of the run's time: so a call that compiles stays what it is, and the sum is that of the run. The gaps in a
    run overlap with its steps: of them remains as much as `exposed` says. Waits may be for values of earlier steps, or
    for what was there already: if most are so much shorter than a traced step, which takes `drained_ns`, a step lasts
    as long as that, or until the next.
    """
    spread, runs, first = list(words), [], 0
    for last in range(0, len(words), 2):
        is_last = last + 2 == len(words) or words[last + 3] & NEW_THREAD_FLAG
        if is_last or words[last + 1] & WAITED_FLAG:
            runs.append((first, last))
            first = last + 2
    lasts_ns = sorted((words[at + 1] & TIME_MASK) - words[at] for _, at in runs if not words[at + 1] & TRACED_FLAG)
    is_early = bool(lasts_ns) and 10 * lasts_ns[len(lasts_ns) // 2] < 7 * drained_ns
    for first, last in runs:
        is_extended = is_early and not words[last + 1] & TRACED_FLAG
        starts = words[first : last + 2 : 2]
        ends = [word & TIME_MASK for word in words[first + 1 : last + 2 : 2]]
        if is_extended and last + 2 < len(words) and not words[last + 3] & NEW_THREAD_FLAG:
            ends[-1] = max(ends[-1], min(starts[-1] + drained_ns, words[last + 2]))
        calls_ns = [end - start for start, end in zip(starts[:-1], ends)]
        gaps_ns = [max(start - end, 0) for start, end in zip(starts[1:], ends)]
        steps, whole_ns, last_ns = len(starts), ends[-1] - starts[0], ends[-1] - starts[-1]
        last_ns = max(last_ns, drained_ns) if is_extended else last_ns
        ratio = exposed(steps, whole_ns, last_ns, sum(gaps_ns), sum(max(ns - last_ns, 0) for ns in calls_ns))
        gaps_ns = [ns * ratio >> RATIO_BITS for ns in gaps_ns]
        rest_ns = max(whole_ns - sum(calls_ns) - sum(gaps_ns), 0) // steps
        at_ns = starts[0]
        for count, (call_ns, gap_ns) in enumerate(zip(calls_ns, gaps_ns)):
            spread[first + 2 * count] = at_ns
            at_ns += call_ns + rest_ns
            spread[first + 2 * count + 1] = words[first + 2 * count + 1] & ~TIME_MASK | at_ns
            at_ns += gap_ns
        spread[last] = at_ns
        spread[last + 1] = words[last + 1] & ~TIME_MASK | ends[-1]
    return spread


def exposed(steps, whole_ns, last_ns, gaps_ns, slow_ns):
    """Return how much of the gaps in a run the device was idle, as a multiple of 2 ** -RATIO_BITS.

    A device that keeps up with the program has one step left to run when the program waits, and `last_ns`, the call of
    the last step and the wait, is about what it takes for each. One that does not has many. So it was idle for the
    rest of the run, less what calls took beyond that (`slow_ns`: they compile).
    """
    idle_ns = max(whole_ns - steps * last_ns - slow_ns, 0)
    return (min(idle_ns, gaps_ns) << RATIO_BITS) // gaps_ns if gaps_ns else 0


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
    """Add values to (count, sum, min, max) at `offset` and to the histogram at `buckets_offset`."""
    _add_extremes(totals, offset, len(values), sum(values), min(values), max(values))
    for word in memoryview(array.array("d", values)).cast("B").cast("q"):
        bucket = (word >> 48) - BUCKET_OFFSET
        totals[buckets_offset + min(max(bucket, 0), BUCKETS - 1)] += 1


def _fold_with_numpy(numpy, totals, block, last_end_ns):
    """Do the same as `_fold`, ten times faster, with the numpy that the job has imported anyway."""
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
# The last words of the header take the stores of such loops; they have no meaning for a reader.
_SCRATCH = HEADER_WORDS - 16


class SharedLoop(Loop):
    """A loop whose steps are those of several threads, in the order in which they ended."""

    __slots__ = ("latest", "lock")

    def __init__(self, *args):
        Loop.__init__(self, *args)
        self.latest = None  # the loop that recorded the previous step

    def place(self, words, base):
        Loop.place(self, words, base)
        # Reentrant: a signal handler of the job may run a step in the middle of another.
        self.lock = threading.RLock()  # new in a forked child, where its holder may be gone

    def record_from(self, forwarding, start_ns, end_ns, flags):
        """Append a step of one of the threads and return its number; there is no gap between steps of two threads."""
        with self.lock:
            if self.latest is not forwarding:
                flags |= NEW_THREAD_FLAG
            self.ensure_recorded(start_ns, end_ns, flags)
            self.latest = forwarding
            return self.n - 1


class ForwardingLoop(Loop):
    """The loop of one thread that passes each step on to a SharedLoop."""

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
        self.record(start_ns, end_ns, flags)  # the shared loop knows whether it has this step

    def stored(self):
        slot = ((self.n - 1) & RING_MASK) * 2
        self.record(self.ring[slot], self.ring[slot + 1])

    def _catch_up(self):
        self.n = self.shared.n
        self.next_check = self.shared.next_check
        self.next_fold = self.n + 1


class UntimedLoop(Loop):
    """The loop of one thread for steps that steps.bin has no room for: only their number is kept."""

    __slots__ = ("_counted_ns", "_give_up_ns", "_lock", "_look_for_room")

    def __init__(self, file, kind, lock, now_ns, look_for_room):
        """Count under `lock`; call `look_for_room()` when it is time to look for room again."""
        Loop.__init__(self, file, -1, kind, UNTIMED, _SCRATCH)
        self.words[self.poll_at] = NEVER
        self.trace_at(NEVER)
        self.ring = memoryview(bytearray(4 * WORD)).cast("q")
        self.totals = None
        self.n, self.next_fold = 1, 2  # call `stored` at every step; not 0, at which graphs would be collected
        self._lock = lock
        self._look_for_room = look_for_room
        self._give_up_ns = now_ns + REFUSED_NS
        self._counted_ns = 0  # when the latest step that is counted began

    def record(self, start_ns, end_ns, flags=0):
        with self._lock:
            if start_ns != self._counted_ns:
                self._counted_ns = start_ns
                self.file.add(UNTIMED_STEPS, 1)
        if end_ns >= self._give_up_ns:
            self._look_for_room()
        return 0

    def ensure_recorded(self, start_ns, end_ns, flags=0):
        self.record(start_ns, end_ns, flags)

    def stored(self):
        self.n = 1
        self.record(self.ring[2], self.ring[3])
