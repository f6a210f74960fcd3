"""Watch what a thread calls in a gap: from the end of a step to its next step.

A watch begins when a traced step has been written, or after a step that `GapPlan` has chosen. The step wrapper of the
next step ends it, in `start_trace`: beginning a watch makes every loop look at the control words at its next step.
Other steps pay nothing.

`GapPlan` chooses, besides the gaps after traced steps, a sample of all gaps and long gaps that are foreseen. It is
consulted where a step looks at the control words, which happens every 10 ms: after a long gap always, at its first
step.
"""

import sys
import threading
from functools import partial

from tfprobe_agent.imports import place_of
from tfprobe_agent.unpatched import UNPATCHED

from . import calls, framework
from .guard import STATE, never_raise_noting
from .steps_layout import NEVER

try:
    from resource import RUSAGE_THREAD, getrusage
except ImportError:  # a Python built without it
    RUSAGE_THREAD = getrusage = None

# The first gaps of a loop follow tracing and allocation.
FIRST_STEP = 3
# A watch costs a hundredth of a trace. Watches of foreseen gaps may take this part of the budget, and others as much,
# or less if traces have used up the budget already.
SHARE = 0.25
SHARE_OF_NONE = 0.1
# Assumed cost of a watch before the first one was measured.
UNKNOWN_COST_NS = 200 * 1000
# Watches are at least this far apart, and at least this part of the time since the first: a month makes 700 lines.
PAUSE_NS = 25 * 1000 * 1000
SPREAD = 48
# If a thread runs steps of several loops, the one watched last leaves the next watch to others for this long.
TURN_NS = 15 * 1000 * 1000
# A gap is long if it takes at least this time and this many usual cycles of its loop.
LONG_NS = 10 * 1000 * 1000
LONG_CYCLES = 4
# In a thread of more loops than this, the one with the latest step is not searched for.
MOST_LOOPS = 16
# Number of long gaps of a loop that are remembered: on a busy machine some occur by chance, mostly shorter ones.
REMEMBERED = 12
LEAST_DISTANCE = 2
# The first foreseen gaps of a loop may overdraw the budget, as the first traces may.
EARLY_WATCHES = 4
EARLY_OVERDRAFT = 3


class GapPlan:
    """Decides which gaps of a process are watched apart from traced steps; the schedule has the budget."""

    def __init__(self, schedule):
        self.schedule = schedule
        self.spent_ns = 0  # for gaps that were not foreseen
        self.foreseen_ns = 0
        self.first_ns = None
        self.next_ns = 0
        self.latest = None

    def why(self, current, loop, now_ns, is_after_long):
        """Return why the gap after the next step of a loop is to be watched, or None.

        The gap right after a long one is not typical, and would be chosen too often.
        """
        if loop.kind in SEAMLESS or loop.n < FIRST_STEP or self.schedule.config.trace_level == "off" or STATE.leaving:
            return None
        if loop.n >= loop.next_watch:
            is_next = loop.n == loop.next_watch
            loop.watch_at(next_of(sorted(loop.long_gaps), loop.n + 1))
            if is_next and self._affords_foreseen(loop, now_ns):
                return "foreseen"
        return "sampled" if not is_after_long and self._is_due(current, loop, now_ns) else None

    def taken(self, loop, why, cost_ns):
        """Account for a watch that has ended."""
        if why == "foreseen":
            self.foreseen_ns += cost_ns
            loop.foreseen += 1
            loop.foreseen_cost_ns = cost_ns
        else:
            self.spent_ns += cost_ns
            # A thread may lose its CPU during a watch: a single one says little.
            loop.watch_cost_ns = (3 * (loop.watch_cost_ns or UNKNOWN_COST_NS) + cost_ns) // 4

    def _is_due(self, current, loop, now_ns):
        if now_ns < self.next_ns:
            return False
        if loop is self.latest and len(current.loops) > 1 and now_ns < self.next_ns + TURN_NS:
            return False
        cost_ns = loop.watch_cost_ns or UNKNOWN_COST_NS
        is_left = self.schedule.is_affordable(now_ns, cost_ns)
        if self.spent_ns + cost_ns > (SHARE if is_left else SHARE_OF_NONE) * self.schedule.allowed_ns(now_ns):
            return False
        if self.first_ns is None:
            self.first_ns = now_ns
        self.next_ns = now_ns + max(PAUSE_NS, (now_ns - self.first_ns) // SPREAD)
        self.latest = loop
        return True

    def _affords_foreseen(self, loop, now_ns):
        if now_ns < loop.next_foreseen_ns:
            return False
        overdraft = EARLY_OVERDRAFT if loop.foreseen < EARLY_WATCHES else 1
        cost_ns = loop.foreseen_cost_ns or UNKNOWN_COST_NS
        if self.foreseen_ns + cost_ns > overdraft * SHARE * self.schedule.allowed_ns(now_ns):
            return False
        loop.next_foreseen_ns = now_ns + (now_ns - self.schedule.started_ns) // (4 * SPREAD)
        return True


@never_raise_noting
def observe(current, loop, now_ns):
    """Return whether a long gap of the calling thread ends now; gaps that recur at its distance are foreseen."""
    if loop.kind in SEAMLESS or now_ns - loop.latest_end_ns() < LONG_NS or len(current.loops) > MOST_LOOPS:
        return False
    loops = [own.shared or own for own in current.loops.values()]
    latest = max((own for own in loops if own.n), key=_latest_end_ns, default=None)
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
    """Return the step, from `steps` on, after which the next long gap is expected; NEVER if none is.

    `long_gaps` are the numbers of steps before each long gap, in order. Three at one distance count, the start of the
    loop among them, or two if there are no three.
    """
    known = [0] + long_gaps
    pairs = [(first, later) for index, later in enumerate(known) for first in known[:index]]
    pairs = [pair for pair in pairs if pair[1] - pair[0] >= LEAST_DISTANCE and 2 * pair[1] - pair[0] > steps]
    threes = [pair for pair in pairs if 2 * pair[0] - pair[1] in known]
    if not threes and steps == known[-1]:
        threes = [pair for pair in pairs if list(pair) == known[-2:]]
    return min([2 * later - first - 1 for first, later in threes], default=NEVER)


def _least_of(long_gaps):
    """Return the one to forget: the shortest if it is less than half of the longest, else the oldest."""
    shortest = min(long_gaps, key=long_gaps.get)
    return shortest if 2 * long_gaps[shortest] < max(long_gaps.values()) else min(long_gaps)


def _latest_end_ns(loop):
    return loop.latest_end_ns()


# A watch ends after this many calls and returns; later ones are left out.
MAX_EVENTS = 20000
# ... and when it has cost the job this much.
MAX_OWN_NS = 20 * 1000 * 1000
# Number of calls of each kind that measure the cost of an event, and of repetitions, of which the minimum counts.
CALIBRATION_CALLS = 64
CALIBRATION_ROUNDS = 3
# From Python 3.12 on a profile function slows the calls of every thread a little. A thread whose last step is no older
# than this would pay for it.
OTHERS_NS = 1000 * 1000 * 1000
# Profiles in a way that sys.getprofile cannot see, and would be removed.
_UNSEEN_PROFILERS = ("yappi",)

# Code whose call begins a step without `start_trace`, and a function that tells whether it does: see optimizers.
STEP_CODES = []
# Kinds of steps that follow one another without a gap: what a program does between two is in their traces.
SEAMLESS = frozenset(("optimizer_step",))


class Allowance:
    """The limit of a watch: `events`, and `own_ns` at `event_ns` each."""

    __slots__ = ("event_ns", "events", "own_ns")

    def __init__(self, events, own_ns, event_ns):
        self.events = events
        self.own_ns = own_ns
        self.event_ns = event_ns


class Watch:
    """An open watch of one thread."""

    __slots__ = (
        "cpu_began_ns",
        "cpu_ns",
        "event_ns",
        "loop",
        "opening_ns",
        "profile",
        "recorder",
        "settle",
        "start_ns",
        "step",
        "taken",
        "waits",
        "why",
    )

    def __init__(self, recorder, loop, step, why):
        self.recorder = recorder
        self.loop = loop
        self.step = step
        self.why = why
        self.cpu_began_ns = self.cpu_ns = None  # CPU time of its thread, None if unknown
        self.taken = threading.Lock()  # by whoever ends it: its thread or, at exit, the main one
        self.waits = {}  # for a queued step, by the place of the wait: how often, and ns
        self.profile = self.settle = None
        self.start_ns = self.event_ns = self.opening_ns = 0


@never_raise_noting
def begin(current, recorder, loop, step, why):
    """Watch the calling thread until its next step, unless another tool watches it; `why` is written."""
    if loop.kind in SEAMLESS:
        return
    began_ns = UNPATCHED.monotonic_ns()
    frame = sys._getframe(1)  # not this frame: it would refer to itself and live on, and all its callers with it
    if current.watch is not None:
        end(current)
    is_alone = not somebody_watches() and not any([known.compiles_frames() for known in list(framework.LOADED)])
    if not is_alone or not _has_code_of_the_job(frame) or _slows_others(current, recorder, began_ns):
        return
    watch = Watch(recorder, loop, step, why)
    if recorder.event_ns is None:
        event_ns(recorder)  # it is accounted for separately
        began_ns = UNPATCHED.monotonic_ns()
    watch.event_ns = recorder.event_ns
    for polled in recorder.loops:
        polled.words[polled.poll_at] = 0
    allowance = Allowance(min(MAX_EVENTS, MAX_OWN_NS // watch.event_ns), MAX_OWN_NS, watch.event_ns)
    watch.start_ns = UNPATCHED.monotonic_ns()
    watch.opening_ns = watch.start_ns - began_ns
    watch.profile, watch.settle = calls.make_profile_function(
        frame, watch.start_ns, allowance, _begins_step, partial(_finish_itself, current)
    )
    # Complete now, and reachable by whoever ends it: an exception of the job may come before the last line.
    recorder.watches.add(watch)
    current.watch = watch
    if why == "sampled":
        loop.mark_watched(step)
    watch.cpu_began_ns = _thread_cpu_ns()
    UNPATCHED.setprofile(watch.profile)


@never_raise_noting
def waited(current, waited_ns, has_ended):
    """Note a wait for the step before the gap; if the step ended with it, the gap begins now, and its watch anew."""
    began_ns = UNPATCHED.monotonic_ns()
    watch = current.watch
    if watch is None:
        return  # it has ended since the caller looked
    place = place_of(sys._getframe(1))
    times, ns = watch.waits.get(place, (0, 0))
    watch.waits[place] = times + 1, ns + waited_ns
    if not has_ended or _leave(watch) is None or not watch.taken.acquire(False):
        return
    current.watch = None
    watch.recorder.watches.discard(watch)
    _, events, made_ns = watch.settle()
    cost_ns = watch.opening_ns + events * watch.event_ns + made_ns + UNPATCHED.monotonic_ns() - began_ns
    watch.recorder.watched(watch.loop, watch.why, cost_ns)
    begin(current, watch.recorder, watch.loop, watch.step, watch.why)
    anew = current.watch
    if anew is not None:
        anew.waits = watch.waits


def end(current):
    """End the watch of the calling thread, because a step begins. A profiler of the job may have replaced it."""
    watch, current.watch = current.watch, None
    now_ns = _leave(watch)
    _settle(watch, current, now_ns, cut=now_ns is None)


def end_all(recorder, current):
    """End the watches of all threads, at exit."""
    for watch in list(recorder.watches):
        _leave(watch)
        _settle(watch, current, UNPATCHED.monotonic_ns(), cut=True)


def forget(current):
    """Drop the watch of this thread, in a forked child; the parent's goes on."""
    watch, current.watch = current.watch, None
    if watch is not None:
        _leave(watch)


def somebody_watches():
    """Return whether a profiler, a debugger or a coverage tool is active in this thread."""
    if UNPATCHED.getprofile() is not None or sys.gettrace() is not None:
        return True
    monitoring = getattr(sys, "monitoring", None)
    if monitoring is not None and any([monitoring.get_tool(tool) is not None for tool in range(6)]):
        return True
    return any([name in sys.modules for name in _UNSEEN_PROFILERS])


def _leave(watch):
    """Remove the profile function from the calling thread; return the time, or None if it was not there."""
    if UNPATCHED.getprofile() is not watch.profile:
        return None
    UNPATCHED.setprofile(None)
    _take_cpu_time(watch)
    return UNPATCHED.monotonic_ns()


def _finish_itself(current, cut):
    """Finish a watch whose profile function has removed itself: allowance used up, thread ended, or a step begun."""
    watch, current.watch = current.watch, None
    if watch is not None:
        _take_cpu_time(watch)
        _settle(watch, current, None, cut)


def _take_cpu_time(watch):
    if watch.cpu_began_ns is not None:
        watch.cpu_ns = _thread_cpu_ns() - watch.cpu_began_ns


def _thread_cpu_ns():
    """Return the CPU time of the calling thread, None if it cannot be known."""
    if UNPATCHED.thread_time_ns is not None:
        return UNPATCHED.thread_time_ns()
    if getrusage is None:
        return None
    used = getrusage(RUSAGE_THREAD)
    return int((used.ru_utime + used.ru_stime) * 1e9)


def _begins_step(code):
    """Return whether this code of the agent, about to run, begins a step that does not come by `end`."""
    return any([code is step_code and applies() for step_code, applies in STEP_CODES])


def _settle(watch, current, now_ns, cut):
    """Write what a watch has seen, once, and account for it."""
    began_ns = UNPATCHED.monotonic_ns()
    if not watch.taken.acquire(False):
        return
    recorder = watch.recorder
    recorder.watches.discard(watch)
    nodes, events, made_ns = watch.settle(now_ns)
    if STATE.disabled or not STATE.noting or recorder.pid != UNPATCHED.getpid():
        return
    rows, functions = calls.rows_of(nodes)
    for known in list(framework.LOADED):
        known.name_sources(rows, functions)
    lasted_ns = sum(row[4] for row in rows)
    cost_ns = min(events * watch.event_ns, lasted_ns)
    recorder.process_dir.append(
        "gaps.jsonl",
        {
            "work": watch.loop.index, "step": watch.step, "start_ns": watch.start_ns,
            "end_ns": watch.start_ns + lasted_ns, "cost_ns": cost_ns, "cut": cut, "why": watch.why,
            "cpu_ns": watch.cpu_ns, "calls": rows, "functions": functions,
            "waits": [[file, line, times, ns] for (file, line), (times, ns) in watch.waits.items()],
        },
    )  # fmt: skip
    ended_ns = UNPATCHED.monotonic_ns()
    added_ns = cost_ns + made_ns + ended_ns - began_ns
    recorder.watched(watch.loop, watch.why, watch.opening_ns + added_ns)
    for loop in current.loops.values():
        if loop.mark_ns:  # an eager step is under way: the time of the watch is not part of it
            loop.mark_ns = min(loop.mark_ns + added_ns, ended_ns)


def _has_code_of_the_job(frame):
    while frame is not None:
        if not calls.is_ours(frame.f_code):
            return True
        frame = frame.f_back
    return False


def _slows_others(current, recorder, now_ns):
    """Return whether another thread runs steps and would pay for a watch of this one."""
    if not hasattr(sys, "monitoring"):
        return False
    own = {id(loop.shared or loop) for loop in current.loops.values()}
    return any(
        [loop.n and id(loop) not in own and now_ns - loop.latest_end_ns() < OTHERS_NS for loop in recorder.loops]
    )


def event_ns(recorder):
    """Return the cost of one event, measured once per process."""
    if recorder.event_ns is None:
        began_ns = UNPATCHED.monotonic_ns()
        bare_ns = min(_calibration(None) for _ in range(CALIBRATION_ROUNDS))
        watched_ns = min(_calibration(sys._getframe()) for _ in range(CALIBRATION_ROUNDS))
        recorder.event_ns = max(1, (watched_ns - bare_ns) // (4 * CALIBRATION_CALLS))
        recorder.spent_once(UNPATCHED.monotonic_ns() - began_ns)
    return recorder.event_ns


def _calibration(frame):
    """Return how long some calls take, watched if a frame is given."""
    function, function_in_c = _do_nothing, len
    try:
        if frame is not None:
            began_ns = UNPATCHED.monotonic_ns()
            profile, _ = calls.make_profile_function(
                frame, began_ns, Allowance(NEVER, NEVER, 1), _begins_step, _do_nothing
            )
            UNPATCHED.setprofile(profile)
        began_ns = UNPATCHED.monotonic_ns()
        for _ in range(CALIBRATION_CALLS):
            function()
            function_in_c("")
        return UNPATCHED.monotonic_ns() - began_ns
    finally:
        if frame is not None:
            UNPATCHED.setprofile(None)


def _do_nothing(_cut=None):
    """Stand in for a function of the job."""
