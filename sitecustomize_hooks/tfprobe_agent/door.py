"""A door: the wrapper around a method of the job whose call is one step. The one place where the original is called.

The fast path is inline and on purpose free of calls into the agent: it is paid by every step of every job.
"""

import sys
import threading

from . import gap_plan, gaps, settings, sizes, tracing
from .guard import STATE, failed, never_raise_noting
from .imports import place_of
from .interruptions import leave_traceback
from .originals import ORIGINAL
from .pulses import PULSES, beat
from .recorder import current
from .steps import Work
from .steps_layout import HEADER_WORDS, NEVER, ONCE_NS, POLL_NS, RAISED_FLAG, REQUEST, RING_MASK, SAMPLED_FLAG
from .threads import THREAD

# Calls timed, once a process, to know what a step that is not sampled costs.
CALIBRATION_CALLS = 512
# The result of a call that has not returned.
UNSET = object()


def make(find, tracer, notice=None, by=0, salt=0, applies=None, otherwise=None):
    """Return a function that takes the original method and returns the door to put in its place.

    `args` are all that the door got: a method's instance is the first of them.
    `find(mine, args, kwargs)` returns the Work of this call, or None to let it pass. It is not asked if the thread
    knows a Work by the id of argument `by` plus `salt` (below 8, which ids are multiples of: it tells doors of one
    instance apart), and `applies` (if given) returns true.
    `tracer(work, why, original, args, kwargs)` starts a sample and returns it, or None if it declines.
    `notice(args, kwargs)` looks at calls with more than three arguments or with `options`; what it returns is called
    when the step is over.
    `otherwise(original)` returns what is called where the call is no step, if that is not the original.
    `around(original, owner)` is for a function that is no method: its Work is known by the id of `owner`.
    """
    thread, state, clock, unset = THREAD, STATE, ORIGINAL.monotonic_ns, UNSET

    def around(original, owner=None):
        passing = original if otherwise is None else otherwise(original)
        key_at, fixed = (by, None) if owner is None else (sys.maxsize, id(owner))

        def door(*args, **kwargs):
            mine = work = sample = over = None
            result = unset
            try:
                mine = thread.mine
                if mine.depth:
                    if mine.collecting is not None and fixed is None and args:
                        mine.collecting.append(args[0])  # an instance; a function's arguments are the job's own
                elif not state.aside:
                    work = mine.known.get(id(args[key_at]) + salt if len(args) > key_at else fixed)
                    if work is None or (applies is not None and not applies()):
                        work = find(mine, args, kwargs)
                    if work is not None:
                        if notice is not None and (len(args) > 3 or "options" in kwargs):
                            over = notice(args, kwargs)
                        start = clock()
                        if work.n >= work.next_sample or start >= work.words[work.poll_at]:
                            sample = start_sample(work, tracer, original, args, kwargs)
                            start = clock()
                        mine.depth = 1
                        if sample is None:
                            result = original(*args, **kwargs)
                        else:
                            result = sample.call(*sample.args, **sample.kwargs)
                        end = clock()
                        mine.depth = 0
                        if sample is not None:
                            finish_sample(work, sample, result, start, end)
                        else:
                            step = work.n
                            ring = work.ring
                            at = (step & RING_MASK) * 2
                            ring[at] = start
                            ring[at + 1] = end
                            work.n = step = step + 1
                            work.words[work.count_at] = step
                            if step >= work.next_fold:
                                work.stored()
                        if over is not None:
                            over, ending = None, over
                            ending()
                        return result
            except BaseException as error:
                # What is the job's goes on from each of these branches: what it threw into our code, too.
                if result is not unset:
                    mine.depth = 0
                    _settle(work, sample, over, start)
                    failed("after a step")
                    return result
                if work is not None and mine.depth:
                    mine.depth = 0  # before any call of ours: at the recursion limit none succeeds
                    _settle(work, sample, over, start, RAISED_FLAG)
                    leave_traceback(error)
                    raise
                work = None
                _give_up(sample, over)
                failed("before a step")
            try:
                return passing(*args, **kwargs)
            except BaseException as error:
                leave_traceback(error)
                raise

        return door

    return around


class Sample:
    """A step being recorded: what to call instead, and how to end. Subclasses know TensorFlow."""

    level = "full"
    session_config = None  # of the Session whose step it is
    watch = None  # why the gap after it is watched, of a step that is not traced

    def __init__(self, call, args, kwargs):
        self.call = call
        self.args = args
        self.kwargs = kwargs
        self.why = None
        self.request = None  # the sequence of the order it is taken for, if any
        self.called_at = "", 0  # file and line of the job
        self.opening_ns = 0
        self.clock_ns = 0  # unix time less monotonic time when the step began
        self.thread = threading.get_ident()

    def feeds(self):
        """Return what the step was fed; None where steps are not fed."""

    def finish(self, work, step, result):
        """End the trace and store the capture; return (file name, bytes, graph fingerprint or None), or None."""
        raise NotImplementedError

    def abandon(self):
        """End the trace, if it has not ended, keeping nothing. May be called again."""
        raise NotImplementedError


class GapWatch(Sample):
    """A step that is not traced, whose gap is to be watched for some reason."""

    def __init__(self, watch, call, args, kwargs):
        Sample.__init__(self, call, args, kwargs)
        self.watch = watch

    def abandon(self):
        """Nothing has begun yet."""


def start_sample(work, tracer, original, args, kwargs):
    """Start a sample of the next step if one is due and possible; look whether one is wanted from outside.

    Where none is, the gap after the step may be watched all the same: then a GapWatch is returned.
    """
    mine = THREAD.mine
    is_after_long = gap_plan.observe(mine, work.shared or work, ORIGINAL.monotonic_ns())
    _end_gap()
    began_ns = ORIGINAL.monotonic_ns()
    work.words[work.poll_at] = began_ns + POLL_NS
    if began_ns >= PULSES.next_ns:
        beat(began_ns)
        began_ns = ORIGINAL.monotonic_ns()  # a pulse has an account of its own
    if work.shared is not None:
        work = work.shared
    work.file.look(began_ns)
    why = _why_watched(mine, work, began_ns, is_after_long)
    watch = None if why is None else GapWatch(why, original, args, kwargs)
    if work.n < work.next_trace and work.words[REQUEST] == work.request_seen:
        return watch
    sample = None
    try:
        recorder = current()
        _calibrate(recorder)
        if work.words[REQUEST] != work.request_seen:
            recorder.poll_request(work)
        if STATE.leaving:
            return None
        if not STATE.sampling:
            work.trace_at(work.n + (1 << 20))
            return watch
        why = recorder.schedule.reason(work)
        if why is None:
            return watch
        sample = tracer(work, why, original, args, kwargs)
        if sample is None:
            return watch
        sample.called_at = place_of(sys._getframe(1))
        sample.why = why
        sample.request = recorder.schedule.sequence if why == "request" else None
        sample.opening_ns = ORIGINAL.monotonic_ns() - began_ns
        sample.clock_ns = ORIGINAL.unix_ns() - ORIGINAL.monotonic_ns()
        return sample
    except BaseException:
        abandon(sample)
        return failed("starting a sample", sampling_only=True)


@never_raise_noting
def _why_watched(mine, work, now_ns, is_after_long):
    return current().gap_plan.why(mine, work, now_ns, is_after_long)


def abandon(sample):
    """End a trace that was begun for a step that is not recorded; `sample` may not have come as far as its caller."""
    if sample is None:
        holder, eager = tracing.holder(), THREAD.mine.eager_work
        if holder is not None and holder.thread == threading.get_ident() and holder is not (eager and eager.collected):
            sample = holder
    if sample is not None:
        sample.abandon()


def finish_sample(work, sample, result, start_ns, end_ns):
    """Record the sampled step, then its capture, and account what it cost."""
    if sample.watch is not None:
        step = work.record(start_ns, end_ns)
        gaps.begin(THREAD.mine, current(), work.shared or work, step, sample.watch)
        return
    usual_ns = (work.shared or work).usual_ns()
    step = work.record(start_ns, end_ns, SAMPLED_FLAG)
    work = work.shared or work
    try:
        recorder = current()
        once_ns = recorder.steps.words[ONCE_NS]
        feeds = sample.feeds()
        fed_bytes = None if feeds is None else sizes.fed_bytes(feeds)
        result_bytes = sizes.result_bytes(result)
        stored = sample.finish(work, step, result)
        added_ns = sample.opening_ns + ORIGINAL.monotonic_ns() - end_ns
        added_ns -= recorder.steps.words[ONCE_NS] - once_ns  # graphs and code maps have an account of their own
        if usual_ns is not None:
            added_ns += max(0, end_ns - start_ns - usual_ns)
        if stored is None:
            recorder.declined(work, "the profiler was taken over before the step ended")
            return
        work.look()
        name, size, graph = stored
        clock_ns = ORIGINAL.unix_ns() - ORIGINAL.monotonic_ns()
        recorder.captured(work, added_ns, sample.request)
        recorder.journal.event(
            "sample", work=work.index, step=step, capture=name, level=sample.level, why=sample.why,
            request=sample.request, start_ns=start_ns, end_ns=end_ns, start_unix_ns=start_ns + clock_ns,
            clock_set_ns=clock_ns - sample.clock_ns, plain_ns=usual_ns,
            cost_ns=added_ns, bytes=size, graph=graph, fed_bytes=fed_bytes, result_bytes=result_bytes,
            called_at=sample.called_at,
        )  # fmt: skip
        if not recorder.settings_told:
            recorder.settings_told = True
            settings.tell(sample.session_config)
        gaps.begin(THREAD.mine, recorder, work, step, "traced")
    except Exception:
        failed("finishing a sample", sampling_only=True)


def _end_gap():
    """End the watch of the time before this step, if there is one."""
    try:
        mine = THREAD.mine
        if mine.watch is not None:
            gaps.end(mine)
    except Exception:
        failed("ending a gap", noting_only=True)


def _give_up(sample, over):
    """End what was begun for a step that will not be called."""
    try:
        if over is not None:
            over()
        abandon(sample)
    except Exception:
        failed("giving up a sample", sampling_only=True)


def _settle(work, sample, over, start_ns, flags=0):
    """Leave a step whose call raised, or after whose call an exception came: it is recorded, nothing stays open."""
    try:
        work.ensure_recorded(start_ns, ORIGINAL.monotonic_ns(), flags)
        if over is not None:
            over()
        if sample is not None:
            sample.abandon()
    except Exception:
        failed("after a step")


def _calibrate(recorder):
    """Measure once what a door adds to a call, by calling a function that does nothing through a door and without."""
    if recorder.calibrated:
        return
    recorder.calibrated = True
    work = Work(recorder.steps.scratch(), 0, "function", "calibration", HEADER_WORDS)
    work.trace_at(NEVER)
    work.next_fold = work.words[work.poll_at] = NEVER
    function = _do_nothing
    mine = THREAD.mine
    mine.known[id(work)] = work
    behind_door = make(None, None)(_do_nothing)
    began_ns = ORIGINAL.monotonic_ns()
    for _ in range(CALIBRATION_CALLS):
        function(None)
    bare_ns = ORIGINAL.monotonic_ns() - began_ns
    for _ in range(CALIBRATION_CALLS):
        behind_door(work)
    del mine.known[id(work)]
    recorder.measured_hook(CALIBRATION_CALLS, ORIGINAL.monotonic_ns() - began_ns - 2 * bare_ns)


def _do_nothing(_self):
    """Stand in for a step."""
