"""The step wrapper: replaces a method of the job whose call is one step, and calls the original in one place.

The fast path is inline and deliberately free of calls into the agent: every step of every job pays for it.
"""

import sys
import threading

from tfprobe_agent.imports import place_of
from tfprobe_agent.interruptions import leave_traceback
from tfprobe_agent.unpatched import UNPATCHED

from . import gaps, tracing
from .guard import STATE, failed, never_raise_noting
from .loop import Loop
from .recorder import current_recorder
from .resource_samples import RESOURCE_SAMPLES, take_sample
from .steps_layout import (
    HEADER_WORDS,
    NEVER,
    ONCE_NS,
    POLL_NS,
    RAISED_FLAG,
    REQUEST,
    RING_MASK,
    TRACED_FLAG,
)
from .threads import THREAD

# Calls timed, once per process, to measure the cost of a step that is not traced.
CALIBRATION_CALLS = 512
# The result of a call that has not returned.
UNSET = object()


def make(find, tracer, observe=None, by=0, salt=0, applies=None, otherwise=None):
    """Return a function that takes the original method and returns the step wrapper to put in its place.

    `args` are all arguments of the wrapper: a method's instance is the first of them.
    `find(current, args, kwargs)` returns the Loop of this call, or None to let it pass. It is not called if the thread
    has cached a Loop by the id of argument `by` plus `salt` (below 8, which ids are multiples of: it distinguishes
    wrappers of one instance), and `applies` (if given) returns true.
    `tracer(loop, why, original, args, kwargs)` starts a traced step and returns it, or None if it declines.
    `observe(args, kwargs)` inspects calls with more than three arguments or with `options`; its result is called when
    the step is over.
    `otherwise(original)` returns what to call if the call is no step, if that is not the original.
    `around(original, owner)` is for a function that is no method: its Loop is cached by the id of `owner`.
    """
    thread, state, clock, unset = THREAD, STATE, UNPATCHED.monotonic_ns, UNSET

    def around(original, owner=None):
        passing = original if otherwise is None else otherwise(original)
        key_at, fixed = (by, None) if owner is None else (sys.maxsize, id(owner))

        def step_wrapper(*args, **kwargs):
            current = loop = traced = on_end = None
            result = unset
            try:
                current = thread.current
                if current.depth:
                    if current.collecting is not None and fixed is None and args:
                        current.collecting.append(args[0])  # an instance; a function's arguments are the job's own
                elif not state.disabled:
                    loop = current.loop_cache.get(id(args[key_at]) + salt if len(args) > key_at else fixed)
                    if loop is None or (applies is not None and not applies()):
                        loop = find(current, args, kwargs)
                    if loop is not None:
                        if observe is not None and (len(args) > 3 or "options" in kwargs):
                            on_end = observe(args, kwargs)
                        start = clock()
                        if loop.n >= loop.next_check or start >= loop.words[loop.poll_at]:
                            traced = start_trace(loop, tracer, original, args, kwargs)
                            start = clock()
                        current.depth = 1
                        if traced is None:
                            result = original(*args, **kwargs)
                        else:
                            result = traced.call(*traced.args, **traced.kwargs)
                        end = clock()
                        current.depth = 0
                        if traced is not None:
                            finish_trace(loop, traced, result, start, end)
                        else:
                            step = loop.n
                            ring = loop.ring
                            offset = (step & RING_MASK) * 2
                            ring[offset] = start
                            ring[offset + 1] = end
                            loop.n = step = step + 1
                            loop.words[loop.count_at] = step
                            if step >= loop.next_fold:
                                loop.stored()
                        if on_end is not None:
                            on_end, call_on_end = None, on_end
                            call_on_end()
                        return result
            except BaseException as error:
                # An exception of the job leaves each branch unchanged, also one thrown into the agent's code.
                if result is not unset:
                    current.depth = 0
                    _settle(loop, traced, on_end, start)
                    failed("after a step")
                    return result
                if loop is not None and current.depth:
                    current.depth = 0  # before any call of the agent: at the recursion limit none succeeds
                    _settle(loop, traced, on_end, start, RAISED_FLAG)
                    leave_traceback(error)
                    raise
                loop = None
                _give_up(traced, on_end)
                failed("before a step")
            try:
                return passing(*args, **kwargs)
            except BaseException as error:
                leave_traceback(error)
                raise

        return step_wrapper

    return around


def start_trace(loop, tracer, original, args, kwargs):
    """Start a trace of the next step if one is due and possible; look whether one is requested.

    Otherwise the gap after the step may be watched all the same: then a GapWatch is returned.
    """
    current = THREAD.current
    is_after_long = gaps.observe(current, loop.shared or loop, UNPATCHED.monotonic_ns())
    _end_gap()
    began_ns = UNPATCHED.monotonic_ns()
    loop.words[loop.poll_at] = began_ns + POLL_NS
    if began_ns >= RESOURCE_SAMPLES.next_ns:
        take_sample(began_ns)
        began_ns = UNPATCHED.monotonic_ns()  # a resource sample is accounted for separately
    if loop.shared is not None:
        loop = loop.shared
    loop.file.look(began_ns)
    why = _why_watched(current, loop, began_ns, is_after_long)
    watch = None if why is None else tracing.GapWatch(why, original, args, kwargs)
    if loop.n < loop.next_trace and loop.words[REQUEST] == loop.request_seen:
        return watch
    traced = None
    try:
        recorder = current_recorder()
        _calibrate(recorder)
        if loop.words[REQUEST] != loop.request_seen:
            recorder.poll_request(loop)
        if STATE.leaving:
            return None
        if not STATE.tracing:
            loop.trace_at(loop.n + (1 << 20))
            return watch
        why = recorder.schedule.reason(loop)
        if why is None:
            return watch
        traced = tracer(loop, why, original, args, kwargs)
        if traced is None:
            return watch
        traced.called_at = place_of(sys._getframe(1))
        traced.why = why
        traced.request = recorder.schedule.sequence if why == "request" else None
        traced.opening_ns = UNPATCHED.monotonic_ns() - began_ns
        traced.clock_ns = UNPATCHED.unix_ns() - UNPATCHED.monotonic_ns()
        return traced
    except BaseException:
        abandon(traced)
        return failed("starting a trace", tracing_only=True)


@never_raise_noting
def _why_watched(current, loop, now_ns, is_after_long):
    return current_recorder().gap_plan.why(current, loop, now_ns, is_after_long)


def open_window(loop, window):
    """Return the window if it opens around the next step of a loop, or None and note why it does not."""
    declined = window.open()
    if declined is None:
        return window
    current_recorder().declined(loop, declined)
    return None


def abandon(traced):
    """End a trace that was begun for a step that is not recorded; `traced` may not have reached its caller."""
    if traced is None:
        holder, eager = tracing.holder(), THREAD.current.eager_loop
        if holder is not None and holder.thread == threading.get_ident() and holder is not (eager and eager.collected):
            traced = holder
    if traced is not None:
        traced.abandon()


def finish_trace(loop, traced, result, start_ns, end_ns):
    """Record the traced step, then its capture, and account for the cost."""
    if traced.watch is not None:
        step = loop.record(start_ns, end_ns)
        gaps.begin(THREAD.current, current_recorder(), loop.shared or loop, step, traced.watch)
        return
    usual_ns = (loop.shared or loop).usual_ns()
    step = loop.record(start_ns, end_ns, TRACED_FLAG)
    loop = loop.shared or loop
    try:
        recorder = current_recorder()
        once_ns = recorder.steps.words[ONCE_NS]
        fed_bytes, result_bytes = traced.sizes(result)
        stored = traced.finish(loop, step, result)
        added_ns = traced.opening_ns + UNPATCHED.monotonic_ns() - end_ns
        added_ns -= traced.waited_ns
        added_ns -= recorder.steps.words[ONCE_NS] - once_ns  # graphs and code maps are accounted for separately
        if usual_ns is not None:
            added_ns += max(0, end_ns - start_ns - usual_ns)
        if stored is None:
            recorder.declined(loop, traced.why_lost)
            return
        loop.look()
        end_ns = traced.ended_ns or end_ns
        name, size, graph = stored
        clock_ns = UNPATCHED.unix_ns() - UNPATCHED.monotonic_ns()
        recorder.captured(loop, added_ns, traced.request)
        recorder.process_dir.event(
            "sample", work=loop.index, step=step, capture=name, level=traced.level, why=traced.why,
            request=traced.request, start_ns=start_ns, end_ns=end_ns, start_unix_ns=start_ns + clock_ns,
            clock_set_ns=clock_ns - traced.clock_ns, plain_ns=usual_ns,
            cost_ns=added_ns, bytes=size, graph=graph, fed_bytes=fed_bytes, result_bytes=result_bytes,
            batch_ns=traced.batch_ns, called_at=traced.called_at,
        )  # fmt: skip
        if not recorder.settings_written:
            recorder.settings_written = True
            traced.write_settings()
        gaps.begin(THREAD.current, recorder, loop, step, "traced")
    except Exception:
        failed("finishing a trace", tracing_only=True)


def _end_gap():
    """End the watch of the gap before this step, if there is one."""
    try:
        current = THREAD.current
        if current.watch is not None:
            gaps.end(current)
    except Exception:
        failed("ending a gap watch", noting_only=True)


def _give_up(traced, on_end):
    """End what was begun for a step that will not be called."""
    try:
        if on_end is not None:
            on_end()
        abandon(traced)
    except Exception:
        failed("abandoning a trace", tracing_only=True)


def _settle(loop, traced, on_end, start_ns, flags=0):
    """Finish a step whose call raised, or after whose call an exception came: record it, leave nothing open."""
    try:
        loop.ensure_recorded(start_ns, UNPATCHED.monotonic_ns(), flags)
        if on_end is not None:
            on_end()
        if traced is not None:
            traced.abandon()
    except Exception:
        failed("after a step")


def _calibrate(recorder):
    """Measure once what a step wrapper adds to a call, by calling an empty function with and without one."""
    if recorder.calibrated:
        return
    recorder.calibrated = True
    loop = Loop(recorder.steps.scratch(), 0, "function", "calibration", HEADER_WORDS)
    loop.trace_at(NEVER)
    loop.next_fold = loop.words[loop.poll_at] = NEVER
    function = _do_nothing
    current = THREAD.current
    current.loop_cache[id(loop)] = loop
    wrapped_function = make(None, None)(_do_nothing)
    began_ns = UNPATCHED.monotonic_ns()
    for _ in range(CALIBRATION_CALLS):
        function(None)
    bare_ns = UNPATCHED.monotonic_ns() - began_ns
    for _ in range(CALIBRATION_CALLS):
        wrapped_function(loop)
    del current.loop_cache[id(loop)]
    recorder.measured_hook(CALIBRATION_CALLS, UNPATCHED.monotonic_ns() - began_ns - 2 * bare_ns)


def _do_nothing(_self):
    """Stand in for a step."""
