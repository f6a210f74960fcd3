"""Optimizer steps: in a training loop, the end of each outermost `Optimizer.step` ends a step, and the next begins.

PyTorch calls two global hooks around each step of any optimizer. An update that a GradScaler skips, because a gradient
is infinite, is an iteration as well.
"""

import functools
import inspect
import sys

from tfprobe_agent import patching
from tfprobe_agent.core.guard import STATE, failed
from tfprobe_agent.core.recorder import current_recorder, find_named
from tfprobe_agent.core.step_wrapper import abandon, finish_trace, start_trace
from tfprobe_agent.core.steps_layout import RING_MASK
from tfprobe_agent.core.threads import THREAD, cache_loop
from tfprobe_agent.interruptions import leave_traceback
from tfprobe_agent.unpatched import UNPATCHED

from . import profiler
from .thread_state import torch_thread

KIND = "optimizer_step"
_OPTIMIZERS = "torch.optim.optimizer"
# Where the releases define GradScaler: from 2.3 on in the first one.
_SCALERS = ("torch.amp.grad_scaler", "torch.cuda.amp.grad_scaler")
# Optimizers of one class that step in one thread and live at the same time have a loop each, up to this many.
_MOST_OF_A_CLASS = 8
_NO_CALLS = []
# The name of the function that calls hooks around a step.
_HOOKED = "wrapper"


class Gradient:
    """Stands for the optimizer of a loop that has none: its steps end where a gradient has been taken."""

    __slots__ = ("__weakref__", "name")

    def __init__(self, name):
        self.name = name


def patch(module):
    """Register the hooks in PyTorch, which has just been imported; before 2.0 it has none."""
    optimizers = sys.modules.get(_OPTIMIZERS)
    before, after = _hooks(module)
    if hasattr(optimizers, "register_optimizer_step_post_hook"):
        optimizers.register_optimizer_step_pre_hook(before)
        optimizers.register_optimizer_step_post_hook(after)
    for name in _SCALERS:
        scaler = vars(sys.modules.get(name, object)).get("GradScaler")
        if scaler is not None and scaler.__module__ == name:
            patching.patch_call(scaler, "step", _around_scaler)


def compiling_test(torch):
    """Return the function by which code asks whether torch.compile traces it; its value there is a constant."""
    test = getattr(getattr(torch, "compiler", None), "is_compiling", None)
    return test if test is not None else sys.modules["torch._utils"].is_compiling


def hook_again():
    """Have the steps of PyTorch's own optimizers end steps, where the first compilation has removed all hooks (2.1)."""
    torch = sys.modules["torch"]
    for cls in list(vars(torch.optim).values()):
        step = vars(cls).get("step") if isinstance(cls, type) and issubclass(cls, torch.optim.Optimizer) else None
        if inspect.isfunction(step) and getattr(step, "hooked", False) and step.__code__.co_name != _HOOKED:
            patching.patch_call(cls, "step", functools.partial(around_step, compiling_test(torch)))


def around_step(is_compiling, original):
    """Return an optimizer's step that ends a step of the program."""

    def step(self, *args, **kwargs):
        if is_compiling():
            return original(self, *args, **kwargs)
        _begin(1)
        try:
            result = original(self, *args, **kwargs)
        except BaseException as error:
            leave_traceback(error)
            raise
        end_step(self)
        return result

    return step


def _hooks(torch):
    """Return the functions to call before and after each step of an optimizer.

    torch.compile traces them if it compiles a whole training step, and folds them away: it knows what `is_compiling`
    returns. Anything else here would change the compiled program.
    """
    is_compiling = compiling_test(torch)

    def before_step(optimizer, args, kwargs):
        if not is_compiling():
            _begin(2)

    def after_step(optimizer, args, kwargs):
        if not is_compiling():
            end_step(optimizer)

    return before_step, after_step


def _begin(outwards):
    """Note that a step of an optimizer begins, in the frame that lies so many frames outwards."""
    try:
        current = THREAD.current
        if current.depth or STATE.disabled:
            return
        thread = current.torch or torch_thread()
        # The hook after a step that raised was never called: the frames tell.
        if thread.updating and _is_inside(sys._getframe(outwards)):
            thread.updating += 1
            return
        thread.updating = 1
        if not thread.mark_ns:
            thread.update_ns = UNPATCHED.monotonic_ns()
    except BaseException:
        failed("before an optimizer step")


def _is_inside(frame):
    """Return whether another step of an optimizer is under way around the one in this frame.

    It is the same code for all optimizers: one may call another's.
    """
    code, outer = frame.f_code, frame.f_back
    while outer is not None and outer.f_code is not code:
        outer = outer.f_back
    return outer is not None


def end_step(optimizer):
    """Note that a step of an optimizer has ended; if it was an outermost one, it ends a step of the program.

    That began where the thread's latest step ended, that of any optimizer. What a step that is not traced needs is
    inline, as in the step wrappers: after a training step each call of a function costs half a microsecond and more.
    """
    thread, loop, start_ns, end_ns = None, None, 0, 0
    try:
        current = THREAD.current
        if current.depth or STATE.disabled:
            return
        thread = current.torch or torch_thread()
        if thread.updating > 1:
            thread.updating -= 1
            return
        thread.updating = 0
        end_ns = UNPATCHED.monotonic_ns()
        start_ns = thread.mark_ns or thread.update_ns or end_ns
        if thread.lone_calls != _NO_CALLS:
            start_ns = max(start_ns, calls_ended_ns(current, thread))
            thread.lone_calls = []
        thread.whole_steps = False
        latest = thread.marked
        if latest is not None and latest.owner is not None and latest.owner() is optimizer:
            loop = latest  # only now: an exception that comes before must find no loop of another optimizer
        else:
            loop = current.loop_cache.get(id(optimizer)) or find_loop(optimizer)
        window = thread.window
        if window is None:
            step = loop.n
            offset = (step & RING_MASK) * 2
            loop.ring[offset] = start_ns
            loop.ring[offset + 1] = end_ns
            loop.n = step = step + 1
            loop.words[loop.count_at] = step
            if step >= loop.next_fold:
                loop.stored()
        else:
            thread.window = None
            end_ns = _end_traced(loop, window, start_ns, end_ns)
        thread.mark_ns = end_ns
        if window is None and (loop.n >= loop.next_check or end_ns >= loop.words[loop.poll_at]):
            # Of optimizers in turn all may be due: one keeps its place until its step begins, unless that never comes.
            if thread.due is None or thread.waited > len(thread.follows):
                thread.due, thread.waited = loop, 0
            thread.waited += 1
        due = thread.due
        if due is not None or thread.marked is not loop:  # else nobody asks yet that the loop follows itself
            thread.follows[loop], thread.marked = thread.marked, loop
            if due is not None and window is None and thread.follows.get(due) is loop:
                _open(thread)
    except BaseException:
        if end_ns:
            _settle(thread, loop, start_ns, end_ns)
        failed("after an optimizer step")


def _settle(thread, loop, start_ns, end_ns):
    """Finish a step after which an exception came: it is recorded, and nothing stays open."""
    try:
        thread.window = None
        abandon(None)
        if loop is not None:
            loop.ensure_recorded(start_ns, end_ns)
            thread.mark_ns = end_ns
    except Exception:
        failed("after an optimizer step")


def calls_ended_ns(current, thread):
    """Return when the latest call that was a step ended in this thread, if an evaluation has just run; else 0."""
    if thread.lone_calls is not None:
        return 0
    return max([loop.latest_end_ns() for loop in current.loops.values() if loop.kind != KIND], default=0)


def find_loop(optimizer):
    """Return the loop of an optimizer; a second one of its class that steps in the same thread has its own."""
    current = THREAD.current
    name = optimizer.name if type(optimizer) is Gradient else type(optimizer).__name__
    for number in range(1, _MOST_OF_A_CLASS + 1):
        loop = find_named(KIND, name if number == 1 else "%s %d" % (name, number))
        owner = None if loop is None or loop.owner is None else loop.owner()
        if owner is None or owner is optimizer:
            break
    cache_loop(id(optimizer), optimizer, loop)
    if loop is not None and loop.index >= 0:  # for a loop without room another is looked for
        entry = current.cache_references.get(id(optimizer))
        loop.owner = None if entry is None else entry[0]
    return loop


def _open(thread):
    """Open a window for the step that begins now, if it is to be traced; the next one begins after that.

    Not where another one has just ended: PyTorch's own annotation of the optimizer's step began in that one, and is
    still open. Its end would be written to memory that the session has freed, if there were another session by then.
    """
    loop, thread.due = thread.due, None
    thread.taken = []  # a window that was given up may have left some
    thread.window = start_trace(loop, profiler.trace_marked, None, (), {})
    if thread.window is not None:
        thread.window_end = profiler.end_with_thread(thread.window)
    thread.mark_ns = UNPATCHED.monotonic_ns()


def _end_traced(loop, window, start_ns, end_ns):
    """Record a step for which a window is open, its own or another's; return when the next one begins."""
    if window.loop is loop:
        finish_trace(loop, window, None, start_ns, end_ns)
        return UNPATCHED.monotonic_ns()
    loop.record(start_ns, end_ns)
    window.abandon()
    current_recorder().declined(window.loop, "another optimizer's step came first")
    return UNPATCHED.monotonic_ns()


def _around_scaler(original):
    """Return `GradScaler.step` that ends a step, too, where it skips the optimizer's."""

    def step(self, optimizer, *args, **kwargs):
        before_ns = began_ns = None
        try:
            thread = torch_thread()
            before_ns, began_ns = thread.mark_ns, UNPATCHED.monotonic_ns()
        except BaseException:
            failed("before GradScaler.step")
        try:
            result = original(self, optimizer, *args, **kwargs)
        except BaseException as error:
            leave_traceback(error)
            raise
        try:
            is_outermost = began_ns is not None and not THREAD.current.depth and not STATE.disabled
            if is_outermost and thread.mark_ns == before_ns:
                thread.updating, thread.update_ns = 0, began_ns
                end_step(optimizer)
        except BaseException:
            failed("after GradScaler.step")
        return result

    return step
