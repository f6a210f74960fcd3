"""Eager steps: in a loop without tf.function, each outermost `apply_gradients` ends a step.

A loop that updates its weights itself has none: then the outermost `GradientTape.gradient` of each tape ends a step.
"""

import sys

from tfprobe_agent import patching
from tfprobe_agent.core import gaps
from tfprobe_agent.core.guard import STATE, failed
from tfprobe_agent.core.recorder import current_recorder, find_named
from tfprobe_agent.core.step_wrapper import UNSET, abandon, finish_trace, start_trace
from tfprobe_agent.core.threads import THREAD, cache_loop
from tfprobe_agent.interruptions import leave_traceback
from tfprobe_agent.unpatched import UNPATCHED

from . import functions, profiler

# Upper bound of the gradients that a loop with an optimizer computes before it first applies one.
BY_HAND_LEAST = 5
_BY_HAND = "GradientTape"
# Where TensorFlow tells whether a tape records; from 2.13 on in the first one.
_TAPES = ("tensorflow.python.eager.record", "tensorflow.python.eager.tape")

_CLASSES = ("BaseOptimizer", "_BaseOptimizer", "OptimizerV2", "Optimizer")


def patch(module):
    """Patch the optimizer classes that this module defines."""
    for name in _CLASSES:
        cls = module.__dict__.get(name)
        if cls is not None and cls.__module__ == module.__name__:
            patching.patch_method(cls, "apply_gradients", _around)
            if name == "BaseOptimizer":
                patching.patch_method(cls, "apply", _around)


def _around(original):
    """Return `apply_gradients` with a mark after it: a step lies between two marks."""
    thread, state, clock, executing_eagerly = THREAD, STATE, UNPATCHED.monotonic_ns, functions.executing_eagerly
    unset = UNSET

    def apply(self, *args, **kwargs):
        current = loop = start = None
        result = unset
        try:
            current = thread.current
            if not current.depth and not state.disabled and executing_eagerly():
                current.gradients = None  # its steps end here
                loop = current.loop_cache.get(id(self)) or _new_loop(self)
                if loop is not None:
                    began_ns = clock()
                    current.depth = 1
                    result = original(self, *args, **kwargs)
                    current.depth = 0
                    start = loop.mark_ns or began_ns
                    _end_step(current, loop, start, clock())
                    return result
        except BaseException as error:
            # An exception of the job leaves each branch unchanged, also one thrown into the agent's code.
            if result is not unset:
                _settle(current, loop, start or loop.mark_ns or began_ns, clock())
                failed("after apply_gradients")
                return result
            if loop is not None and current.depth:
                current.depth = 0
                leave_traceback(error)
                raise
            failed("before apply_gradients")
        try:
            return original(self, *args, **kwargs)
        except BaseException as error:
            leave_traceback(error)
            raise

    gaps.STEP_CODES[:] = [(apply.__code__, executing_eagerly)]  # if no tape comes before it
    return apply


def _end_step(current, loop, start_ns, end_ns):
    """Record an eager step, whose mark is its `apply_gradients` that has returned; the next one begins."""
    if current.eager_loop is None and loop.collected is None:
        loop.record(start_ns, end_ns)
    else:
        end_ns = _end_trace(current, loop, start_ns, end_ns)
    loop.mark_ns = end_ns
    if loop.n >= loop.next_check or (end_ns >= loop.words[loop.poll_at] and current.awaiting_tape is None):
        current.awaiting_tape = loop


def _settle(current, loop, start_ns, end_ns):
    """Finish a step after which an exception came: it is recorded, nothing stays open, the next one begins."""
    current.depth = 0
    try:
        traced, loop.collected = loop.collected, None
        if traced is not None:
            traced.abandon()
        abandon(None)
        loop.ensure_recorded(start_ns, end_ns)
        loop.mark_ns = end_ns
    except Exception:
        failed("after apply_gradients")


def _new_loop(instance):
    loop = find_named("eager", type(instance).__name__)
    cache_loop(id(instance), instance, loop)
    return loop


def _end_trace(current, loop, start_ns, end_ns):
    """Record the step of `loop` if a window is open, its own or another optimizer's; return when the next begins."""
    other, current.eager_loop = current.eager_loop, None
    if other is not None and other is not loop and other.collected is not None:
        # That loop ended at a tape: another optimizer's step comes first.
        traced, other.collected = other.collected, None
        traced.abandon()
        if traced.watch is None:
            current_recorder().declined(other, "another optimizer's step came first")
    if loop.collected is None:
        loop.record(start_ns, end_ns)
        return end_ns
    traced, loop.collected = loop.collected, None
    finish_trace(loop, traced, None, start_ns, end_ns)
    return UNPATCHED.monotonic_ns()  # the agent's own work between two steps belongs to neither


def patch_tape(module):
    """Patch GradientTape: it begins the part of an eager step that can be traced, and may end a step."""
    patching.patch_method(module.GradientTape, "__enter__", _around_tape)
    patching.patch_method(module.GradientTape, "gradient", _around_gradient)


def _around_tape(original):
    """Open the window of a traced eager step at its tape.

    Not at the mark before it: after the last step of a loop no mark follows, and an open window grows by 1 kB per op.
    """
    thread = THREAD

    def enter(self):
        try:
            current = thread.current
            current.has_tape = True
            if current.awaiting_tape is not None and not current.depth:
                _open_at_tape(current)
        except BaseException:
            abandon(None)
            failed("entering a tape")
        try:
            return original(self)
        except BaseException as error:
            leave_traceback(error)
            raise

    return enter


def _open_at_tape(current):
    loop, current.awaiting_tape = current.awaiting_tape, None
    if not STATE.disabled and functions.executing_eagerly():
        loop.collected = start_trace(loop, _open_window, None, (), {})
        current.eager_loop = loop


def _around_gradient(original):
    """Return `gradient` with a mark after it, for threads in which no optimizer ends a step."""
    thread, state, clock, executing_eagerly = THREAD, STATE, UNPATCHED.monotonic_ns, functions.executing_eagerly

    def gradient(self, *args, **kwargs):
        try:
            began_ns = clock()
        except BaseException:
            began_ns = None
            failed("before a gradient")
        try:
            result = original(self, *args, **kwargs)
        except BaseException as error:
            leave_traceback(error)
            raise
        try:
            current = thread.current
            is_outermost = not current.depth and not state.disabled and executing_eagerly()
            is_counted = current.gradients is not None and began_ns is not None
            if is_counted and current.has_tape and is_outermost and not _records():
                current.has_tape = False  # several gradients of tapes that were entered together belong to one step
                _by_hand(current, began_ns, clock())
        except BaseException:
            abandon(None)
            failed("after a gradient")
        return result

    return gradient


def _records():
    """Return whether a tape is still recording: then the gradient is part of what it records."""
    for name in _TAPES:
        could_record = getattr(sys.modules.get(name), "could_possibly_record", None)
        if could_record is not None:
            return could_record()
    return True


def _by_hand(current, began_ns, end_ns):
    """End a step that updates its weights itself, once there were enough gradients and no other steps."""
    loop, others = current.loops.get(("eager", _BY_HAND)), 0
    if loop is None:
        others = sum(loop.n for loop in current.loops.values())
        if current.gradients and current.gradients[0] != others:
            current.gradients = []  # another wrapper counts the steps of this loop
        current.gradients = current.gradients or [others]
        current.gradients.append((began_ns, end_ns))
        if len(current.gradients) <= BY_HAND_LEAST:
            return
        loop = find_named("eager", _BY_HAND)
        ends = current.gradients[1:]
        current.gradients = []
        for began_ns, end_ns in ends[:-1]:
            loop.record(loop.mark_ns or began_ns, end_ns)
            loop.mark_ns = end_ns
        began_ns, end_ns = ends[-1]
    _end_step(current, loop, loop.mark_ns or began_ns, end_ns)


def _open_window(loop, why, original, args, kwargs):
    return profiler.open_eager(loop)
