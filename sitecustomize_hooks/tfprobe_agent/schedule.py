"""Which steps are sampled: chosen ones, every Nth, or as many as the budget of time allows. Knows no TensorFlow."""

from bisect import bisect_left

from .originals import ORIGINAL
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
MAIN_SAMPLES = 4
# ... while it goes on: its latest step is no older than this.
MAIN_PAUSE_NS = 60 * 1000 * 1000 * 1000
# Loops beside the training: none of them is that loop while there is another.
_ASIDE = ("evaluate", "predict", "test_on_batch", "predict_on_batch")
# Among more works than this nobody looks for it.
MOST_WORKS = 16
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
        self.requested_work = -1
        self.sequence = 0  # of the order from outside that is being met
        self.is_rank = False  # one of several processes that step together
        self.works = ()  # those of the process

    def first_sample(self, work):
        """Return the first step of a new work at which to ask `reason` (NEVER when none)."""
        if self.config.trace_level == "off":
            return NEVER
        return self._candidate(work, 0)

    def request(self, samples, work_index, sequence):
        """Take an order from outside for the next `samples` steps, of one work or of any (-1); it ends the last one."""
        self.sequence = sequence
        self.requested = samples
        self.requested_work = work_index

    def wanted_by_request(self, work):
        """Tell whether an order from outside covers the next step of this work."""
        return self.requested > 0 and self.requested_work in (-1, work.index)

    def reason(self, work):
        """Return why the next step of `work` is to be sampled, or None after setting the next step to ask at."""
        if self.wanted_by_request(work):
            return "request"
        if self.config.trace_level == "off" or work.n < work.next_trace:
            return None
        if self.config.steps is not None:
            return "explicit" if self._explicit(work.n) == work.n else self._ask_at(work, self._explicit(work.n))
        if self.config.every is not None:
            due = (work.n + 1) % self.config.every == 0
            return "every" if due else self._ask_at(work, self._candidate(work, work.n))
        wait_steps = self._wait_for_budget(work)
        due = self._rung(work.n + wait_steps)
        return "budget" if due == work.n else self._ask_at(work, due)

    def affords(self, cost_ns, overdraft=1):
        """Tell whether work that is done once may be done now; always, where the job's owner chose the steps."""
        if self.config.steps is not None or self.config.every is not None:
            return True
        return self.is_affordable(ORIGINAL.monotonic_ns(), cost_ns, overdraft)

    def _is_main_short_of_samples(self, work):
        """Tell whether another work takes more of the time and has few samples yet."""
        if len(self.works) > MOST_WORKS:
            return False
        since_ns = ORIGINAL.monotonic_ns() - MAIN_PAUSE_NS
        works = [each for each in self.works if each.n and each.latest_end_ns() > since_ns]
        main = max(works, key=_weight, default=work)
        return main is not work and main.samples < MAIN_SAMPLES and main.declined[0] is None

    def allowed_ns(self, now_ns):
        """Return how much recording may have taken by now."""
        return self.config.budget * (now_ns - self.started_ns)

    def is_affordable(self, now_ns, cost_ns, overdraft=1):
        """Tell whether the budget has so much left."""
        return self.spent_ns + cost_ns <= overdraft * self.allowed_ns(now_ns)

    def taken(self, work, cost_ns, sequence=None):
        """Account a sample of step `work.n - 1`, taken for that order if any, and set the next step to ask at."""
        work.samples += 1
        work.last_sampled = work.n - 1
        work.cost_ns = cost_ns
        self.spent_ns += cost_ns
        if sequence == self.sequence and self.requested > 0:
            self.requested -= 1
        self._ask_at(work, NEVER if self.config.trace_level == "off" else self._candidate(work, work.n))

    def declined(self, work):
        """Set the next step to ask at after a sample was wanted but could not be taken."""
        pause_steps = 1 if self.config.steps is not None or self.config.every is not None else max(16, work.n // 4)
        step = self._candidate(work, work.n + pause_steps)
        work.trace_at(min(step, work.n + REQUEST_PAUSE_STEPS) if self.wanted_by_request(work) else step)

    def _ask_at(self, work, step):
        work.trace_at(work.n if self.wanted_by_request(work) else step)

    def _candidate(self, work, step):
        if self.config.steps is not None:
            return self._explicit(step)
        if self.config.every is not None:
            return step + (-(step + 1)) % self.config.every
        if work.samples == 0:
            return self._rung(max(step, SKIP_SLOW_STEPS))
        if work.samples == 1:
            is_slow = (work.usual_ns() or 0) >= SLOW_STEP_NS
            return self._rung(max(step, EARLY_SLOW_STEP if is_slow else EARLY_STEP))
        return self._rung(max(step, int(work.last_sampled * SPREAD) + 1))

    def _rung(self, step):
        """Return the first step from `step` on at which a rank may be sampled; any, in a job of one process."""
        return _RUNGS[bisect_left(_RUNGS, step)] if self.is_rank and step <= _RUNGS[-1] else step

    def _explicit(self, step):
        later = [max(first, step) for first, last in self.config.steps if last >= step]
        return min(later) if later else NEVER

    def _wait_for_budget(self, work):
        """Return 0 when the budget allows a sample now, or after how many steps to ask again."""
        if work.samples == 0 and work.n < SKIP_STEPS and work.latest_ns() < SLOW_STEP_NS:
            return SKIP_STEPS - work.n
        usual_ns = work.usual_ns() or 0
        now_ns = ORIGINAL.monotonic_ns()
        elapsed_ns = now_ns - self.started_ns
        if work.samples == 0:
            busy = usual_ns * work.n >= SMALL_SHARE * elapsed_ns
            return 0 if busy or self.is_affordable(now_ns, UNKNOWN_COST_NS) else max(1, work.n)
        if self._is_main_short_of_samples(work):
            return max(REQUEST_PAUSE_STEPS, work.n // 4)
        overdraft = EARLY_OVERDRAFT if work.samples == 1 else 1
        if self.is_affordable(now_ns, work.cost_ns, overdraft):
            return 0
        short_ns = (self.spent_ns + work.cost_ns) / (self.config.budget * overdraft or 1e-9) - elapsed_ns
        return max(1, min(int(short_ns / max(usual_ns, 1000)), 1 << 20))


def _weight(work):
    return work.kind not in _ASIDE, (work.usual_ns() or 0) * work.n
