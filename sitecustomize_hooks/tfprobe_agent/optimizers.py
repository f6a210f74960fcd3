"""The eager door: in a loop without tf.function, each outermost `apply_gradients` ends a step."""

from . import functions, gaps, patching, profiler
from .door import finish_sample, start_sample
from .guard import STATE, failed
from .originals import ORIGINAL
from .recorder import THREAD, current, find_named, remember

_CLASSES = ("BaseOptimizer", "_BaseOptimizer", "OptimizerV2", "Optimizer")


def patch(module):
    """Patch the optimizer classes that this module defines."""
    for name in _CLASSES:
        cls = module.__dict__.get(name)
        if cls is not None and cls.__module__ == module.__name__:
            patching.patch_door(cls, "apply_gradients", _around)
            if name == "BaseOptimizer":
                patching.patch_door(cls, "apply", _around)


def _around(original):
    """Return `apply_gradients` with a mark behind it: the step is what lies between two marks."""
    thread, state, clock, executing_eagerly = THREAD, STATE, ORIGINAL.monotonic_ns, functions.executing_eagerly

    def apply(self, *args, **kwargs):
        work = None
        try:
            mine = thread.mine
            if not mine.depth and not state.aside and executing_eagerly():
                work = mine.known.get(id(self)) or _new_work(self)
                if work is not None:
                    mine.depth = 1
                    began_ns = clock()
        except Exception:
            thread.mine.depth = 0
            work = None
            failed("before apply_gradients")
        except BaseException:  # Ctrl-C: the job's
            thread.mine.depth = 0
            raise
        if work is None:
            return original(self, *args, **kwargs)
        try:
            result = original(self, *args, **kwargs)
        finally:
            mine.depth = 0
        try:
            end_ns = clock()
            if mine.eager_work is None and work.collected is None:
                work.record(work.marks or began_ns, end_ns)
            else:
                end_ns = _end_sample(mine, work, work.marks or began_ns, end_ns)
            work.marks = end_ns
            if work.n >= work.next_sample or (end_ns >= work.words[work.poll_at] and mine.awaiting_tape is None):
                mine.awaiting_tape = work
        except Exception:
            failed("after apply_gradients")
        return result

    gaps.STEP_CODES[:] = [(apply.__code__, executing_eagerly)]  # where no tape comes before it
    return apply


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
        current().declined(other, "another optimizer's step came first")
    if work.collected is None:
        work.record(start_ns, end_ns)
        return end_ns
    sample, work.collected = work.collected, None
    finish_sample(work, sample, None, start_ns, end_ns)
    return ORIGINAL.monotonic_ns()  # what the agent did between two steps belongs to neither


def patch_tape(module):
    """Patch GradientTape, where the part of an eager step that can be traced begins."""
    patching.patch_door(module.GradientTape, "__enter__", _around_tape)


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
        except Exception:
            failed("entering a tape")
        return original(self)

    return enter


def _open_at_tape(mine):
    work, mine.awaiting_tape = mine.awaiting_tape, None
    if not STATE.aside and functions.executing_eagerly():
        work.collected = start_sample(work, _open_window, None, (), {})
        mine.eager_work = work


def _open_window(work, why, original, args, kwargs):
    return profiler.open_between(work)
