"""Which steps are sampled: chosen ones, every Nth, or as many as the budget of time allows. Knows no TensorFlow."""

from bisect import bisect_left

from tfprobe_agent.unpatched import UNPATCHED

from .steps_layout import NEVER

# The first steps trace, compile, allocate and fill queues; they say little about the job.
SKIP_STEPS = 5
# A step this slow will not come often: look at the third one already.
SLOW_STEP_NS = 100 * 1000 * 1000
SKIP_SLOW_STEPS = 2
# The second sample comes early, so that a job of a few hundred steps has more than one; where steps are slow, of a few.
EARLY_STEP = 20
EARLY_SLOW_STEP = 5
# The loop that takes most of the time gets so many samples before another one gets its second.
MAIN_TRACES = 4
# ... while it goes on: its latest step is no older than this.
MAIN_PAUSE_NS = 60 * 1000 * 1000 * 1000
# Loops beside the training: none of them is that loop while there is another.
_SIDE_KINDS = ("evaluate", "predict", "test_on_batch", "predict_on_batch")
# Among more works than this nobody looks for it.
MOST_LOOPS = 16
# ... and may overdraw the budget this much, because a run without samples answers nothing.
EARLY_OVERDRAFT = 3
# A work that takes less of the process's stepping time than this is not worth its first sample yet.
SMALL_SHARE = 0.01
# Samples are spread over the life of a job: each at least this factor later than the one before (in steps).
SPREAD = 1.25
# The only steps at which ranks of one job are sampled by budget, so that what they do together is seen on both sides.
_RUNGS = [2, 5, 9, 14, EARLY_STEP]
while _RUNGS[-1] < 1 << 48:
    _RUNGS.append(int(_RUNGS[-1] * SPREAD) + 1)
# An order from outside that cannot be met at once is tried again after this many steps.
REQUEST_PAUSE_STEPS = 16
# What a sample is taken to cost before the first one was measured.
UNKNOWN_COST_NS = 20 * 1000 * 1000


class Schedule:
    """Decides, step by step and by the agent's own measurements, what to sample."""

    def __init__(self, config, started_ns):
        self.config = config
        self.started_ns = started_ns
        self.spent_ns = 0
        self.requested = 0
        self.requested_loop = -1
        self.sequence = 0  # of the order from outside that is being met
        self.is_rank = False  # one of several processes that step together
        self.loops = ()  # those of the process

    def first_trace(self, loop):
        """Return the first step of a new work at which to ask `reason` (NEVER when none)."""
        if self.config.trace_level == "off":
            return NEVER
        return self._candidate(loop, 0)

    def request(self, steps, loop_index, sequence):
        """Take an order from outside for the next `samples` steps, of one work or of any (-1); it ends the last one."""
        self.sequence = sequence
        self.requested = steps
        self.requested_loop = loop_index

    def wanted_by_request(self, loop):
        """Tell whether an order from outside covers the next step of this work."""
        return self.requested > 0 and self.requested_loop in (-1, loop.index)

    def reason(self, loop):
        """Return why the next step of `work` is to be sampled, or None after setting the next step to ask at."""
        if self.wanted_by_request(loop):
            return "request"
        if self.config.trace_level == "off" or loop.n < loop.next_trace:
            return None
        if self.config.steps is not None:
            return "explicit" if self._explicit(loop.n) == loop.n else self._ask_at(loop, self._explicit(loop.n))
        if self.config.every is not None:
            due = (loop.n + 1) % self.config.every == 0
            return "every" if due else self._ask_at(loop, self._candidate(loop, loop.n))
        wait_steps = self._wait_for_budget(loop)
        due = self._rung(loop.n + wait_steps)
        return "budget" if due == loop.n else self._ask_at(loop, due)

    def affords(self, cost_ns, overdraft=1):
        """Tell whether work that is done once may be done now; always, where the job's owner chose the steps."""
        if self.config.steps is not None or self.config.every is not None:
            return True
        return self.is_affordable(UNPATCHED.monotonic_ns(), cost_ns, overdraft)

    def _is_main_short_of_traces(self, loop):
        """Tell whether another work takes more of the time and has few samples yet."""
        if len(self.loops) > MOST_LOOPS:
            return False
        since_ns = UNPATCHED.monotonic_ns() - MAIN_PAUSE_NS
        loops = [other for other in self.loops if other.n and other.latest_end_ns() > since_ns]
        main = max(loops, key=_weight, default=loop)
        return main is not loop and main.traced_steps < MAIN_TRACES and main.declined[0] is None

    def allowed_ns(self, now_ns):
        """Return how much recording may have taken by now."""
        return self.config.budget * (now_ns - self.started_ns)

    def is_affordable(self, now_ns, cost_ns, overdraft=1):
        """Tell whether the budget has so much left."""
        return self.spent_ns + cost_ns <= overdraft * self.allowed_ns(now_ns)

    def taken(self, loop, cost_ns, sequence=None):
        """Account a sample of step `work.n - 1`, taken for that order if any, and set the next step to ask at."""
        loop.traced_steps += 1
        loop.last_traced = loop.n - 1
        loop.cost_ns = cost_ns
        self.spent_ns += cost_ns
        if sequence == self.sequence and self.requested > 0:
            self.requested -= 1
        self._ask_at(loop, NEVER if self.config.trace_level == "off" else self._candidate(loop, loop.n))

    def declined(self, loop):
        """Set the next step to ask at after a sample was wanted but could not be taken."""
        pause_steps = 1 if self.config.steps is not None or self.config.every is not None else max(16, loop.n // 4)
        step = self._candidate(loop, loop.n + pause_steps)
        loop.trace_at(min(step, loop.n + REQUEST_PAUSE_STEPS) if self.wanted_by_request(loop) else step)

    def _ask_at(self, loop, step):
        loop.trace_at(loop.n if self.wanted_by_request(loop) else step)

    def _candidate(self, loop, step):
        if self.config.steps is not None:
            return self._explicit(step)
        if self.config.every is not None:
            return step + (-(step + 1)) % self.config.every
        if loop.traced_steps == 0:
            return self._rung(max(step, SKIP_SLOW_STEPS))
        if loop.traced_steps == 1:
            is_slow = (loop.usual_ns() or 0) >= SLOW_STEP_NS
            return self._rung(max(step, EARLY_SLOW_STEP if is_slow else EARLY_STEP))
        return self._rung(max(step, int(loop.last_traced * SPREAD) + 1))

    def _rung(self, step):
        """Return the first step from `step` on at which a rank may be sampled; any, in a job of one process."""
        return _RUNGS[bisect_left(_RUNGS, step)] if self.is_rank and step <= _RUNGS[-1] else step

    def _explicit(self, step):
        later = [max(first, step) for first, last in self.config.steps if last >= step]
        return min(later) if later else NEVER

    def _wait_for_budget(self, loop):
        """Return 0 when the budget allows a sample now, or after how many steps to ask again."""
        if loop.traced_steps == 0 and loop.n < SKIP_STEPS and loop.latest_ns() < SLOW_STEP_NS:
            return SKIP_STEPS - loop.n
        usual_ns = loop.usual_ns() or 0
        now_ns = UNPATCHED.monotonic_ns()
        elapsed_ns = now_ns - self.started_ns
        if loop.traced_steps == 0:
            busy = usual_ns * loop.n >= SMALL_SHARE * elapsed_ns
            return 0 if busy or self.is_affordable(now_ns, UNKNOWN_COST_NS) else max(1, loop.n)
        if self._is_main_short_of_traces(loop):
            return max(REQUEST_PAUSE_STEPS, loop.n // 4)
        overdraft = EARLY_OVERDRAFT if loop.traced_steps == 1 else 1
        if self.is_affordable(now_ns, loop.cost_ns, overdraft):
            return 0
        short_ns = (self.spent_ns + loop.cost_ns) / (self.config.budget * overdraft or 1e-9) - elapsed_ns
        return max(1, min(int(short_ns / max(usual_ns, 1000)), 1 << 20))


def _weight(loop):
    return loop.kind not in _SIDE_KINDS, (loop.usual_ns() or 0) * loop.n
