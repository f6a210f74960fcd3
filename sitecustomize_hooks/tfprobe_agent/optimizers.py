"""The eager door: in a loop without tf.function, each outermost `apply_gradients` ends a step.

Where weights are updated by hand, there is none: then the outermost `GradientTape.gradient` of each tape does.
"""

import sys

from . import functions, gaps, patching, profiler
from .door import UNSET, abandon, finish_sample, start_sample
from .guard import STATE, failed
from .interruptions import leave_traceback
from .originals import ORIGINAL
from .recorder import current, find_named
from .threads import THREAD, remember

# A loop with an optimizer computes as many gradients at most before it first applies one.
BY_HAND_LEAST = 5
_BY_HAND = "GradientTape"
# Where TensorFlow tells whether a tape records; from 2.13 on it is the first.
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
    """Return `apply_gradients` with a mark behind it: the step is what lies between two marks."""
    thread, state, clock, executing_eagerly = THREAD, STATE, ORIGINAL.monotonic_ns, functions.executing_eagerly
    unset = UNSET

    def apply(self, *args, **kwargs):
        mine = work = start = None
        result = unset
        try:
            mine = thread.mine
            if not mine.depth and not state.aside and executing_eagerly():
                mine.gradients = None  # what ends its steps are these
                work = mine.known.get(id(self)) or _new_work(self)
                if work is not None:
                    began_ns = clock()
                    mine.depth = 1
                    result = original(self, *args, **kwargs)
                    mine.depth = 0
                    start = work.marks or began_ns
                    _end_step(mine, work, start, clock())
                    return result
        except BaseException as error:
            # What is the job's goes on from each of these branches: what it threw into our code, too.
            if result is not unset:
                _settle(mine, work, start or work.marks or began_ns, clock())
                failed("after apply_gradients")
                return result
            if work is not None and mine.depth:
                mine.depth = 0
                leave_traceback(error)
                raise
            failed("before apply_gradients")
        try:
            return original(self, *args, **kwargs)
        except BaseException as error:
            leave_traceback(error)
            raise

    gaps.STEP_CODES[:] = [(apply.__code__, executing_eagerly)]  # where no tape comes before it
    return apply


def _end_step(mine, work, start_ns, end_ns):
    """Record an eager step, whose mark is its `apply_gradients` that has returned; its next one begins."""
    if mine.eager_work is None and work.collected is None:
        work.record(start_ns, end_ns)
    else:
        end_ns = _end_sample(mine, work, start_ns, end_ns)
    work.marks = end_ns
    if work.n >= work.next_sample or (end_ns >= work.words[work.poll_at] and mine.awaiting_tape is None):
        mine.awaiting_tape = work


def _settle(mine, work, start_ns, end_ns):
    """Leave a step after which an exception came: it is recorded, nothing stays open, the next one begins."""
    mine.depth = 0
    try:
        sample, work.collected = work.collected, None
        if sample is not None:
            sample.abandon()
        abandon(None)
        work.ensure_recorded(start_ns, end_ns)
        work.marks = end_ns
    except Exception:
        failed("after apply_gradients")


def _new_work(instance):
    work = find_named("eager", type(instance).__name__)
    remember(id(instance), instance, work)
    return work


def _end_sample(mine, work, start_ns, end_ns):
    """Record the step of `work` where a window is open, its own or another optimizer's; return when the next begins."""
    other, mine.eager_work = mine.eager_work, None
    if other is not None and other is not work and other.collected is not None:
        # That loop ended at a tape: another optimizer's step comes first.
        sample, other.collected = other.collected, None
        sample.abandon()
        if sample.watch is None:
            current().declined(other, "another optimizer's step came first")
    if work.collected is None:
        work.record(start_ns, end_ns)
        return end_ns
    sample, work.collected = work.collected, None
    finish_sample(work, sample, None, start_ns, end_ns)
    return ORIGINAL.monotonic_ns()  # what the agent did between two steps belongs to neither


def patch_tape(module):
    """Patch GradientTape, where the part of an eager step that can be traced begins, and one by hand ends."""
    patching.patch_method(module.GradientTape, "__enter__", _around_tape)
    patching.patch_method(module.GradientTape, "gradient", _around_gradient)


def _around_tape(original):
    """Open the window of a sampled eager step at its tape.

    Not at the mark before it: after the last step of a loop no mark follows, and an open window grows by 1 kB an op.
    """
    thread = THREAD

    def enter(self):
        try:
            mine = thread.mine
            mine.has_tape = True
            if mine.awaiting_tape is not None and not mine.depth:
                _open_at_tape(mine)
        except BaseException:
            abandon(None)
            failed("entering a tape")
        try:
            return original(self)
        except BaseException as error:
            leave_traceback(error)
            raise

    return enter


def _open_at_tape(mine):
    work, mine.awaiting_tape = mine.awaiting_tape, None
    if not STATE.aside and functions.executing_eagerly():
        work.collected = start_sample(work, _open_window, None, (), {})
        mine.eager_work = work


def _around_gradient(original):
    """Return `gradient` with a mark behind it, for threads in which no optimizer ends a step."""
    thread, state, clock, executing_eagerly = THREAD, STATE, ORIGINAL.monotonic_ns, functions.executing_eagerly

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
            mine = thread.mine
            is_outermost = not mine.depth and not state.aside and executing_eagerly()
            is_counted = mine.gradients is not None and began_ns is not None
            if is_counted and mine.has_tape and is_outermost and not _records():
                mine.has_tape = False  # several gradients of tapes that were entered together are of one step
                _by_hand(mine, began_ns, clock())
        except BaseException:
            abandon(None)
            failed("after a gradient")
        return result

    return gradient


def _records():
    """Tell whether a tape goes on to record: then the gradient is a part of what it records."""
    for name in _TAPES:
        asked = getattr(sys.modules.get(name), "could_possibly_record", None)
        if asked is not None:
            return asked()
    return True


def _by_hand(mine, began_ns, end_ns):
    """End a step that updates its weights by hand, once there were so many gradients and no other steps."""
    work, others = mine.works.get(("eager", _BY_HAND)), 0
    if work is None:
        others = sum(each.n for each in mine.works.values())
        if mine.gradients and mine.gradients[0] != others:
            mine.gradients = []  # another door counts the steps of this loop
        mine.gradients = mine.gradients or [others]
        mine.gradients.append((began_ns, end_ns))
        if len(mine.gradients) <= BY_HAND_LEAST:
            return
        work = find_named("eager", _BY_HAND)
        ends = mine.gradients[1:]
        mine.gradients = []
        for began_ns, end_ns in ends[:-1]:
            work.record(work.marks or began_ns, end_ns)
            work.marks = end_ns
        began_ns, end_ns = ends[-1]
    _end_step(mine, work, work.marks or began_ns, end_ns)


def _open_window(work, why, original, args, kwargs):
    return profiler.open_between(work)
