"""The watch of the time between steps: from the end of a step to the next step of the thread.

Begun when a traced step has been written, or behind one that `gap_plan` has chosen; ended by the door of the next step,
by `start_sample`: beginning a watch makes every work look at its control word at its next step. Others pay nothing.
"""

import sys
import threading
from functools import partial

try:
    from resource import RUSAGE_THREAD, getrusage
except ImportError:  # a Python built without it
    RUSAGE_THREAD = getrusage = None

from . import calls
from .generated import name_sources
from .guard import STATE, never_raise_noting
from .originals import ORIGINAL
from .steps_layout import NEVER

# Watching ends after so many calls and returns; what comes then is left out.
MAX_EVENTS = 20000
# ... and when it has cost the job this much.
MAX_OWN_NS = 20 * 1000 * 1000
# Calls of each kind to measure the cost of an event by, and how often: the least counts.
CALIBRATION_CALLS = 64
CALIBRATION_ROUNDS = 3
# From Python 3.12 on a profile function makes calls in every thread a little slower. Another thread whose last step is
# no older than this would pay for it.
OTHERS_NS = 1000 * 1000 * 1000
# It profiles in a way that sys.getprofile cannot see, and would be thrown out.
_UNSEEN_PROFILERS = ("yappi",)

# Code whose call begins a step without coming by `start_sample`, and whether it does: see optimizers.
STEP_CODES = []


class Allowance:
    """How much a watch may take: `events`, and `own_ns` at `event_ns` each."""

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
        "opening_ns",
        "profile",
        "recorder",
        "settle",
        "start_ns",
        "step",
        "taken",
        "why",
        "work",
    )

    def __init__(self, recorder, work, step, why):
        self.recorder = recorder
        self.work = work
        self.step = step
        self.why = why
        self.cpu_began_ns = self.cpu_ns = None  # CPU time of its thread, None unknown
        self.taken = threading.Lock()  # by whoever ends it: its thread or, at exit, the main one
        self.profile = self.settle = None
        self.start_ns = self.event_ns = self.opening_ns = 0


@never_raise_noting
def begin(mine, recorder, work, step, why):
    """Watch the calling thread until its next step, unless somebody else does; `why` is told."""
    began_ns = ORIGINAL.monotonic_ns()
    frame = sys._getframe(1)  # not this one: a frame that holds itself would live on, and with it all its callers
    if mine.watch is not None:
        end(mine)
    if somebody_watches() or not _has_code_of_the_job(frame) or _slows_others(mine, recorder, began_ns):
        return
    watch = Watch(recorder, work, step, why)
    if recorder.event_ns is None:
        event_ns(recorder)  # it has an account of its own
        began_ns = ORIGINAL.monotonic_ns()
    watch.event_ns = recorder.event_ns
    for each in recorder.works:
        each.words[each.poll_at] = 0
    allowance = Allowance(min(MAX_EVENTS, MAX_OWN_NS // watch.event_ns), MAX_OWN_NS, watch.event_ns)
    watch.start_ns = ORIGINAL.monotonic_ns()
    watch.opening_ns = watch.start_ns - began_ns
    watch.profile, watch.settle = calls.watcher(frame, watch.start_ns, allowance, _begins_step, partial(_over, mine))
    # Whole by now, and found by whoever ends it: an exception of the job may come before the last line.
    recorder.watches.add(watch)
    mine.watch = watch
    if why == "sampled":
        work.mark_watched(step)
    watch.cpu_began_ns = _thread_cpu_ns()
    ORIGINAL.setprofile(watch.profile)


def end(mine):
    """End the watch of the calling thread, because a step begins; one that the job has replaced ended unseen."""
    watch, mine.watch = mine.watch, None
    now_ns = _leave(watch)
    _settle(watch, mine, now_ns, cut=now_ns is None)


def end_all(recorder, mine):
    """At exit: end the watches of all threads."""
    for watch in list(recorder.watches):
        _leave(watch)
        _settle(watch, mine, ORIGINAL.monotonic_ns(), cut=True)


def forget(mine):
    """In a forked child: nothing of this thread is watched any more; the parent goes on."""
    watch, mine.watch = mine.watch, None
    if watch is not None:
        _leave(watch)


def somebody_watches():
    """Tell whether a profiler, a debugger or a coverage tool is at work in this thread."""
    if ORIGINAL.getprofile() is not None or sys.gettrace() is not None:
        return True
    monitoring = getattr(sys, "monitoring", None)
    if monitoring is not None and any(monitoring.get_tool(tool) is not None for tool in range(6)):
        return True
    return any(name in sys.modules for name in _UNSEEN_PROFILERS)


def _leave(watch):
    """Take the profile function out of the calling thread; return when, or None where it is not there."""
    if ORIGINAL.getprofile() is not watch.profile:
        return None
    ORIGINAL.setprofile(None)
    _take_cpu_time(watch)
    return ORIGINAL.monotonic_ns()


def _over(mine, cut):
    """A profile function has taken itself out: all used up, its thread has ended, or a step begins by itself."""
    watch, mine.watch = mine.watch, None
    if watch is not None:
        _take_cpu_time(watch)
        _settle(watch, mine, None, cut)


def _take_cpu_time(watch):
    if watch.cpu_began_ns is not None:
        watch.cpu_ns = _thread_cpu_ns() - watch.cpu_began_ns


def _thread_cpu_ns():
    """Return the CPU time of the calling thread, None where that cannot be known."""
    if ORIGINAL.thread_time_ns is not None:
        return ORIGINAL.thread_time_ns()
    if getrusage is None:
        return None
    used = getrusage(RUSAGE_THREAD)
    return int((used.ru_utime + used.ru_stime) * 1e9)


def _begins_step(code):
    """Tell whether this code of ours, about to run, begins a step and does not come by `end`."""
    return any(code is each and applies() for each, applies in STEP_CODES)


def _settle(watch, mine, now_ns, cut):
    """Write down what a watch has seen, once, and account for it."""
    began_ns = ORIGINAL.monotonic_ns()
    if not watch.taken.acquire(False):
        return
    recorder = watch.recorder
    recorder.watches.discard(watch)
    nodes, events, made_ns = watch.settle(now_ns)
    if STATE.aside or not STATE.noting or recorder.pid != ORIGINAL.getpid():
        return
    rows, functions = calls.rows_of(nodes)
    name_sources(rows, functions)
    lasted_ns = sum(row[4] for row in rows)
    cost_ns = min(events * watch.event_ns, lasted_ns)
    recorder.journal.append(
        "gaps.jsonl",
        {
            "work": watch.work.index, "step": watch.step, "start_ns": watch.start_ns,
            "end_ns": watch.start_ns + lasted_ns, "cost_ns": cost_ns, "cut": cut, "why": watch.why,
            "cpu_ns": watch.cpu_ns, "calls": rows, "functions": functions,
        },
    )  # fmt: skip
    ended_ns = ORIGINAL.monotonic_ns()
    added_ns = cost_ns + made_ns + ended_ns - began_ns
    recorder.watched(watch.work, watch.why, watch.opening_ns + added_ns)
    for each in mine.works.values():
        if each.marks:  # an eager step is under way: what watching took is no part of it
            each.marks = min(each.marks + added_ns, ended_ns)


def _has_code_of_the_job(frame):
    while frame is not None:
        if not calls.is_ours(frame.f_code):
            return True
        frame = frame.f_back
    return False


def _slows_others(mine, recorder, now_ns):
    """Tell whether another thread runs steps and would pay for a watch of this one."""
    if not hasattr(sys, "monitoring"):
        return False
    own = {id(work.shared or work) for work in mine.works.values()}
    return any(work.n and id(work) not in own and now_ns - work.latest_end_ns() < OTHERS_NS for work in recorder.works)


def event_ns(recorder):
    """Return what one event costs, which is measured once a process."""
    if recorder.event_ns is None:
        began_ns = ORIGINAL.monotonic_ns()
        bare_ns = min(_calibration(None) for _ in range(CALIBRATION_ROUNDS))
        watched_ns = min(_calibration(sys._getframe()) for _ in range(CALIBRATION_ROUNDS))
        recorder.event_ns = max(1, (watched_ns - bare_ns) // (4 * CALIBRATION_CALLS))
        recorder.spent_once(ORIGINAL.monotonic_ns() - began_ns)
    return recorder.event_ns


def _calibration(frame):
    """Return how long some calls take, watched if a frame is given."""
    function, function_in_c = _do_nothing, len
    try:
        if frame is not None:
            began_ns = ORIGINAL.monotonic_ns()
            profile, _ = calls.watcher(frame, began_ns, Allowance(NEVER, NEVER, 1), _begins_step, _do_nothing)
            ORIGINAL.setprofile(profile)
        began_ns = ORIGINAL.monotonic_ns()
        for _ in range(CALIBRATION_CALLS):
            function()
            function_in_c("")
        return ORIGINAL.monotonic_ns() - began_ns
    finally:
        if frame is not None:
            ORIGINAL.setprofile(None)


def _do_nothing(_cut=None):
    """Stand in for a function of the job."""
