"""Steps of threads and names for which steps.bin has no block of their own: one block a kind, written by all of them.

A step wrapper writes into what is its thread's alone, without a lock. So each thread gets a work of its own here, too,
with a ring in memory; its `stored`, called after every step, hands the step on under a lock.
"""

import threading

from .steps import Work
from .steps_layout import (
    COUNT,
    HEADER_WORDS,
    NEVER,
    NEW_THREAD_FLAG,
    REFUSED_NS,
    RING_MASK,
    RING_STEPS,
    UNTIMED_STEPS,
    WORD,
)  # fmt: skip

FURTHER = "(further works)"
UNTIMED = "(untimed)"
# The last words of the header take what is stored of such works as of any other; they mean nothing to a reader.
_SCRATCH = HEADER_WORDS - 16


class SharedWork(Work):
    """A work whose steps are those of several threads, in the order in which they ended."""

    __slots__ = ("latest", "lock")

    def __init__(self, *args):
        Work.__init__(self, *args)
        self.latest = None  # who recorded the step before

    def place(self, words, base):
        Work.place(self, words, base)
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


class ForwardingWork(Work):
    """The work of one thread that hands each step on to a SharedWork."""

    __slots__ = ()

    def __init__(self, shared):
        Work.__init__(self, shared.file, shared.index, shared.kind, shared.name, shared.base)
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
        self.next_sample = self.shared.next_sample
        self.next_fold = self.n + 1


class UntimedWork(Work):
    """The work of one thread for steps that steps.bin has no room for: their number is all that is kept."""

    __slots__ = ("_counted_ns", "_give_up_ns", "_lock", "_over")

    def __init__(self, file, kind, lock, now_ns, over):
        """Count under `lock`; call `over()` when it is time to look for room again."""
        Work.__init__(self, file, -1, kind, UNTIMED, _SCRATCH)
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
