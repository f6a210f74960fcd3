"""Which gaps are watched besides those behind traced steps: some of all, and long ones that are foreseen.

Asked where a step looks at the control word, which it does every 10 ms: after a long gap always, at its first step.
"""

from .guard import STATE, never_raise_noting
from .steps_layout import NEVER

# The first gaps of a work follow upon tracing and allocation.
FIRST_STEP = 3
# A watch costs a hundredth of a trace. Those of foreseen gaps may take this part of the budget, and others as much, or
# less where traces have used it up already.
SHARE = 0.25
SHARE_OF_NONE = 0.1
# What a watch is taken to cost before the first one was measured.
UNKNOWN_COST_NS = 200 * 1000
# Watches are at least so far apart, and at least this part of the time since the first: a month makes 700 lines.
PAUSE_NS = 25 * 1000 * 1000
SPREAD = 48
# Where a thread runs steps of several works, the one that was watched last leaves the next watch to others for so long.
TURN_NS = 15 * 1000 * 1000
# A gap is long that lasts so long and so many usual cycles of its loop.
LONG_NS = 10 * 1000 * 1000
LONG_CYCLES = 4
# A thread of more works than this is not searched for the one whose step was the latest.
MOST_WORKS = 16
# So many long gaps of a work are remembered: on a busy machine chance makes some, which are mostly shorter than others.
REMEMBERED = 12
LEAST_DISTANCE = 2
# The first foreseen gaps of a work may overdraw the budget, as the first traces may.
EARLY_WATCHES = 4
EARLY_OVERDRAFT = 3


class GapPlan:
    """Decides which gaps of a process are watched on their own; the schedule has the budget."""

    def __init__(self, schedule):
        self.schedule = schedule
        self.spent_ns = 0  # for gaps that were not foreseen
        self.foreseen_ns = 0
        self.first_ns = None
        self.next_ns = 0
        self.latest = None

    def why(self, mine, work, now_ns, is_after_long):
        """Return why the gap after the next step of a work is to be watched, or None.

        What comes right after a long gap is not what comes usually, and would be chosen too often.
        """
        if work.n < FIRST_STEP or self.schedule.config.trace_level == "off" or STATE.leaving:
            return None
        if work.n >= work.next_watch:
            is_next = work.n == work.next_watch
            work.watch_at(next_of(sorted(work.long_gaps), work.n + 1))
            if is_next and self._affords_foreseen(work, now_ns):
                return "foreseen"
        return "sampled" if not is_after_long and self._is_due(mine, work, now_ns) else None

    def taken(self, work, why, cost_ns):
        """Account a watch that has ended."""
        if why == "foreseen":
            self.foreseen_ns += cost_ns
            work.foreseen += 1
            work.foreseen_cost_ns = cost_ns
        else:
            self.spent_ns += cost_ns
            # Some lose their CPU meanwhile: one alone says little.
            work.watch_cost_ns = (3 * (work.watch_cost_ns or UNKNOWN_COST_NS) + cost_ns) // 4

    def _is_due(self, mine, work, now_ns):
        if now_ns < self.next_ns:
            return False
        if work is self.latest and len(mine.works) > 1 and now_ns < self.next_ns + TURN_NS:
            return False
        cost_ns = work.watch_cost_ns or UNKNOWN_COST_NS
        is_left = self.schedule.is_affordable(now_ns, cost_ns)
        if self.spent_ns + cost_ns > (SHARE if is_left else SHARE_OF_NONE) * self.schedule.allowed_ns(now_ns):
            return False
        if self.first_ns is None:
            self.first_ns = now_ns
        self.next_ns = now_ns + max(PAUSE_NS, (now_ns - self.first_ns) // SPREAD)
        self.latest = work
        return True

    def _affords_foreseen(self, work, now_ns):
        if now_ns < work.next_foreseen_ns:
            return False
        overdraft = EARLY_OVERDRAFT if work.foreseen < EARLY_WATCHES else 1
        cost_ns = work.foreseen_cost_ns or UNKNOWN_COST_NS
        if self.foreseen_ns + cost_ns > overdraft * SHARE * self.schedule.allowed_ns(now_ns):
            return False
        work.next_foreseen_ns = now_ns + (now_ns - self.schedule.started_ns) // (4 * SPREAD)
        return True


@never_raise_noting
def observe(mine, work, now_ns):
    """Tell whether a long gap ends now, on the calling thread; what comes again at its distance is foreseen."""
    if now_ns - work.latest_end_ns() < LONG_NS or len(mine.works) > MOST_WORKS:
        return False
    works = [each.shared or each for each in mine.works.values()]
    latest = max((each for each in works if each.n), key=_latest_end_ns, default=None)
    if latest is None or latest.index < 0:
        return False
    gap_ns = now_ns - latest.latest_end_ns()
    if gap_ns < LONG_NS or gap_ns < LONG_CYCLES * (latest.usual_cycle_ns() or NEVER):
        return False
    if latest.n not in latest.long_gaps:
        latest.long_gaps[latest.n] = gap_ns
        if len(latest.long_gaps) > REMEMBERED:
            del latest.long_gaps[_least_of(latest.long_gaps)]
        latest.watch_at(next_of(sorted(latest.long_gaps), latest.n))
    return True


def next_of(long_gaps, steps):
    """Return the step, from `steps` on, behind which the next long gap is to be expected; NEVER if none is.

    `long_gaps` are how many steps there had been when there was one, in order. Three at one distance count, the
    beginning of the loop among them, and two where no three do.
    """
    known = [0] + long_gaps
    pairs = [(first, later) for at, later in enumerate(known) for first in known[:at]]
    pairs = [pair for pair in pairs if pair[1] - pair[0] >= LEAST_DISTANCE and 2 * pair[1] - pair[0] > steps]
    threes = [pair for pair in pairs if 2 * pair[0] - pair[1] in known]
    if not threes and steps == known[-1]:
        threes = [pair for pair in pairs if list(pair) == known[-2:]]
    return min([2 * later - first - 1 for first, later in threes], default=NEVER)


def _least_of(long_gaps):
    """Return the one to forget: the shortest where it is less than half of the longest, else the oldest."""
    shortest = min(long_gaps, key=long_gaps.get)
    return shortest if 2 * long_gaps[shortest] < max(long_gaps.values()) else min(long_gaps)


def _latest_end_ns(work):
    return work.latest_end_ns()
