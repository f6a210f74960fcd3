"""When the interpreter collected garbage and for how long, by `gc.callbacks`.

No Python code of ours may run there: an exception that a signal handler of the job raised inside it would be printed by
the collector, and lost. So the callback is made of C functions alone, which look at no signal.
"""

import gc
from collections import deque
from functools import partial
from itertools import accumulate, cycle, repeat, starmap, tee
from operator import mul

from .interruptions import let_through
from .originals import ORIGINAL

# Of the collections between two samples the longest are told one by one, if they are long enough to be felt.
MOST_PAUSES = 8
LEAST_PAUSE_NS = 1000 * 1000
# So many readings of the clock are looked through for them, two of each collection.
READINGS = 2048


class _Readings(zip):
    """An iterator of which `taken`, an attribute, takes one more item."""

    taken = property(next)


class Pauses:
    """What the collections of this interpreter took. The collector calls us at the start and at the end of each."""

    def __init__(self):
        self._total_ns = deque((0,), 1)
        self._recent_ns = deque(maxlen=READINGS)
        self._before_fork_ns = 0
        # Starts are negative, ends positive: so their sum is, after each end, the time of all collections.
        unit_ns = ORIGINAL.c_clock_unit_ns
        readings = map(mul, cycle((-unit_ns, unit_ns)), starmap(ORIGINAL.c_clock, repeat(())))
        summed, kept = tee(readings)
        stored = _Readings(map(self._total_ns.append, accumulate(summed)), map(self._recent_ns.append, kept))
        # Whatever the collector gives a format, it takes an item, which stores the reading.
        self._callback = partial(str.format, "{0.taken}", stored)

    def follow(self):
        """Let the collector call us from now on."""
        gc.callbacks.append(self._callback)

    def forget_parent(self):
        """Begin anew at 0, in a forked child."""
        self._before_fork_ns = self._total_ns[0]

    def is_followed(self):
        """Say whether the collector still calls us: the job may empty the list."""
        return self._callback in gc.callbacks

    def total_ns(self):
        """Return what all collections have taken."""
        return int(self._total_ns[0] - self._before_fork_ns)

    def longest(self, since_ns):
        """Return start and end, monotonic ns, of the longest collections that ended since then, by time."""
        try:
            readings = self._recent_ns.copy()
        except RuntimeError:  # a collection has begun meanwhile
            let_through()
            return []
        pauses, start_ns = [], None
        for reading_ns in readings:
            if reading_ns < 0:
                start_ns = -reading_ns
            elif start_ns is not None and reading_ns > since_ns and reading_ns - start_ns >= LEAST_PAUSE_NS:
                pauses.append([int(start_ns), int(reading_ns)])
        pauses.sort(key=lambda pause: pause[0] - pause[1])
        return sorted(pauses[:MOST_PAUSES])


PAUSES = Pauses()
