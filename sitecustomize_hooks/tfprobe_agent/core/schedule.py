"""Which steps are traced: chosen ones, every Nth, or as many as the time budget allows. Independent of TensorFlow."""

from bisect import bisect_left

from tfprobe_agent.unpatched import UNPATCHED

from .steps_layout import NEVER

# The first steps trace, compile, allocate and fill queues; they say little about the job.
SKIP_STEPS = 5
# Slow steps will not be many: consider the third one already.
SLOW_STEP_NS = 100 * 1000 * 1000
SKIP_SLOW_STEPS = 2
# The second trace comes early, so that a job of a few hundred steps has more than one, or of a few slow steps.
EARLY_STEP = 20
EARLY_SLOW_STEP = 5
# The loop that takes most of the time gets this many traced steps before another one gets its second.
MAIN_TRACES = 4
# ... while it goes on: its latest step is no older than this.
MAIN_PAUSE_NS = 60 * 1000 * 1000 * 1000
# Kinds of step that accompany training: none of them is that loop while there is another.
_SIDE_KINDS = ("evaluate", "predict", "test_on_batch", "predict_on_batch")
# Among more loops than this, the main one is not searched for.
MOST_LOOPS = 16
# ... and may overdraw the budget this much, because a run without captures answers nothing.
EARLY_OVERDRAFT = 3
# A loop that takes less of the process's stepping time than this is not worth its first trace yet.
SMALL_SHARE = 0.01
# Traced steps are spread over the life of a job: each at least this factor later than the previous one (in steps).
SPREAD = 1.25
# The only steps at which ranks of one job are traced by budget, so that both sides of what they do together are seen.
_RUNGS = [2, 5, 9, 14, EARLY_STEP]
while _RUNGS[-1] < 1 << 48:
    _RUNGS.append(int(_RUNGS[-1] * SPREAD) + 1)
# A trace request that cannot be met at once is tried again after this many steps.
REQUEST_PAUSE_STEPS = 16
# Assumed cost of a trace before the first one was measured.
UNKNOWN_COST_NS = 20 * 1000 * 1000


class Schedule:
    """Decides, step by step and by the agent's own measurements, which steps to trace."""

    def __init__(self, config, started_ns):
        self.config = config
        self.started_ns = started_ns
        self.spent_ns = 0
        self.requested = 0
        self.requested_loop = -1
        self.sequence = 0  # of the trace request that is being met
        self.is_rank = False  # one of several processes that step together
        self.loops = ()  # those of the process

    def first_trace(self, loop):
        """Return the first step of a new loop at which to ask `reason` (NEVER if none)."""
        if self.config.trace_level == "off":
            return NEVER
        return self._candidate(loop, 0)

    def request(self, steps, loop_index, sequence):
        """Accept a trace request for the next `steps` steps, of one loop or of any (-1); it replaces the last one."""
        self.sequence = sequence
        self.requested = steps
        self.requested_loop = loop_index

    def wanted_by_request(self, loop):
        """Return whether a trace request covers the next step of this loop."""
        return self.requested > 0 and self.requested_loop in (-1, loop.index)

    def reason(self, loop):
        """Return why the next step of `loop` is to be traced, or None after setting the next step to ask at."""
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
        """Return whether a one-time cost is affordable now; always, if the user chose the steps."""
        if self.config.steps is not None or self.config.every is not None:
            return True
        return self.is_affordable(UNPATCHED.monotonic_ns(), cost_ns, overdraft)

    def _is_main_short_of_traces(self, loop):
        """Return whether another loop takes more of the time and has few traced steps yet."""
        if len(self.loops) > MOST_LOOPS:
            return False
        since_ns = UNPATCHED.monotonic_ns() - MAIN_PAUSE_NS
        loops = [other for other in self.loops if other.n and other.latest_end_ns() > since_ns]
        main = max(loops, key=_weight, default=loop)
        return main is not loop and main.traced_steps < MAIN_TRACES and main.declined[0] is None

    def allowed_ns(self, now_ns):
        """Return how much time recording may have taken by now."""
        return self.config.budget * (now_ns - self.started_ns)

    def is_affordable(self, now_ns, cost_ns, overdraft=1):
        """Return whether the budget has this much left."""
        return self.spent_ns + cost_ns <= overdraft * self.allowed_ns(now_ns)

    def taken(self, loop, cost_ns, sequence=None):
        """Account for the trace of step `loop.n - 1`, for that request if any, and set the next step to ask at."""
        loop.traced_steps += 1
        loop.last_traced = loop.n - 1
        loop.cost_ns, loop.cost_step_ns = cost_ns, loop.latest_ns()
        self.spent_ns += cost_ns
        if sequence == self.sequence and self.requested > 0:
            self.requested -= 1
        self._ask_at(loop, NEVER if self.config.trace_level == "off" else self._candidate(loop, loop.n))

    def declined(self, loop):
        """Set the next step to ask at after a step was to be traced and could not be."""
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
            is_slow = (loop.pace_ns() or 0) >= SLOW_STEP_NS
            return self._rung(max(step, EARLY_SLOW_STEP if is_slow else EARLY_STEP))
        return self._rung(max(step, int(loop.last_traced * SPREAD) + 1))

    def _rung(self, step):
        """Return the first step from `step` on at which a rank may be traced; any, in a job of one process."""
        return _RUNGS[bisect_left(_RUNGS, step)] if self.is_rank and step <= _RUNGS[-1] else step

    def _explicit(self, step):
        later = [max(first, step) for first, last in self.config.steps if last >= step]
        return min(later) if later else NEVER

    def _wait_for_budget(self, loop):
        """Return 0 if the budget allows a trace now, or after how many steps to ask again."""
        if loop.traced_steps == 0 and loop.n < SKIP_STEPS and loop.latest_ns() < SLOW_STEP_NS:
            return SKIP_STEPS - loop.n
        usual_ns = loop.pace_ns() or 0
        now_ns = UNPATCHED.monotonic_ns()
        elapsed_ns = now_ns - self.started_ns
        if loop.traced_steps == 0:
            busy = usual_ns * loop.n >= SMALL_SHARE * elapsed_ns
            return 0 if busy or self.is_affordable(now_ns, UNKNOWN_COST_NS) else max(1, loop.n)
        if self._is_main_short_of_traces(loop):
            return max(REQUEST_PAUSE_STEPS, loop.n // 4)
        overdraft = EARLY_OVERDRAFT if loop.traced_steps == 1 else 1
        cost_ns = self._expected_cost_ns(loop)
        if self.is_affordable(now_ns, cost_ns, overdraft):
            return 0
        short_ns = (self.spent_ns + cost_ns) / (self.config.budget * overdraft or 1e-9) - elapsed_ns
        # Steps may become slower, and what is far away in steps comes too late.
        return max(1, min(int(short_ns / max(usual_ns, 1000)), max(REQUEST_PAUSE_STEPS, loop.n)))

    def _expected_cost_ns(self, loop):
        """Return what the next trace will cost: as much as the latest, or more if steps have become longer since."""
        step_ns, usual_ns = loop.cost_step_ns, loop.usual_ns() or 0
        return loop.cost_ns * usual_ns // step_ns if usual_ns > step_ns > 0 else loop.cost_ns


def _weight(loop):
    return loop.kind not in _SIDE_KINDS, (loop.pace_ns() or 0) * loop.n
