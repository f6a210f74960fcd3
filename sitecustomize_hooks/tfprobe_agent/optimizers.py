"""The eager door: in a loop without tf.function, each outermost `apply_gradients` ends a step."""

from . import functions, gaps, patching, profiler
from .door import UNSET, abandon, finish_sample, start_sample
from .guard import STATE, failed
from .interruptions import leave_traceback
from .originals import ORIGINAL
from .recorder import current, find_named
from .threads import THREAD, remember

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
    """Patch GradientTape, where the part of an eager step that can be traced begins."""
    patching.patch_method(module.GradientTape, "__enter__", _around_tape)


def _around_tape(original):
    """Open the window of a sampled eager step at its tape.

    Not at the mark before it: after the last step of a loop no mark follows, and an open window grows by 1 kB an op.
    """
    thread = THREAD

    def enter(self):
        try:
            mine = thread.mine
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


def _open_window(work, why, original, args, kwargs):
    return profiler.open_between(work)
