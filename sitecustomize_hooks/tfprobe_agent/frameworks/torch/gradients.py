"""Steps of loops that update their weights themselves: without an optimizer, each outermost gradient ends one.

It is that of `Tensor.backward`, or of a function that `torch.func.grad` or `grad_and_value` has made. A gradient of
which another one is to be taken (`create_graph`) is part of a step. An update lies in the step after its gradient.

All is as PyTorch defines it again once an optimizer of PyTorch is made in the process, which tells better where steps
end, or once something is compiled: torch.compile would trace what lies around gradients.
"""

import sys

from tfprobe_agent import patching
from tfprobe_agent.core.guard import STATE, failed
from tfprobe_agent.core.threads import THREAD
from tfprobe_agent.interruptions import leave_traceback
from tfprobe_agent.unpatched import UNPATCHED

from . import optimizers
from .thread_state import torch_thread

_FUNCTIONS, _FUNCTION = "torch._functorch.eager_transforms", "grad_and_value_impl"
# PyTorch calls it for the first optimizer that is made of each class.
_PREPARE = "profile_hook_step"
# Gradients that are no look at a model, but a loop.
LEAST_GRADIENTS = 5
# Where `backward` takes create_graph, if not by its name.
_CREATE_GRAPH_AT = 3


class _Wrapped:
    """What is wrapped: owner, name, what was there, and what is; nothing any more after `leave`."""

    places = []  # noqa: RUF012 - replaced


def patch(torch):
    """Wrap what takes gradients in PyTorch, which has just been imported."""
    for owner, name, around in (
        (torch.Tensor, "backward", _around(torch, "Tensor.backward", _makes_graph)),
        (sys.modules.get(_FUNCTIONS), _FUNCTION, _around(torch, "torch.func.grad", None)),
        (torch.optim.Optimizer, _PREPARE, around_preparation),
    ):
        if owner is not None:
            there = vars(owner).get(name)
            patching.patch_call(owner, name, around)
            _Wrapped.places.append((owner, name, there, vars(owner).get(name)))


def leave():
    """Leave gradients as PyTorch defines them from now on."""
    places, _Wrapped.places = _Wrapped.places, []
    for owner, name, there, replacement in places:
        if vars(owner).get(name) is replacement:  # else the job has wrapped it once more
            setattr(owner, name, there)


def around_preparation(original):
    """Return what prepares an optimizer: from then on its steps are those of the program."""

    def prepare(*args, **kwargs):
        try:
            leave()
        except Exception:
            failed("before the first optimizer")
        try:
            return original(*args, **kwargs)
        except BaseException as error:
            leave_traceback(error)
            raise

    return prepare


def _around(torch, name, is_part):
    """Return what wraps a function that takes gradients: unless `is_part`, each ends a step of a loop of this name."""
    gradient = optimizers.Gradient(name)
    is_compiling = optimizers.compiling_test(torch)
    task = getattr(torch._C, "_current_graph_task_id", None)

    def around(original):
        def take_gradient(*args, **kwargs):
            if is_compiling():
                return original(*args, **kwargs)
            thread = None
            began_ns = 0
            try:
                # Inside of another gradient, also in a thread of the engine, it is part of that.
                is_inside = task is not None and task() >= 0
                if _Wrapped.places and not is_inside and not STATE.disabled and not THREAD.current.depth:
                    thread = torch_thread()
                    if thread.differentiating:
                        thread = None
                    elif thread.gradients is not None:
                        began_ns = UNPATCHED.monotonic_ns()
            except Exception:
                failed("before a gradient")
            try:
                if thread is not None:
                    thread.differentiating = True
                result = original(*args, **kwargs)
            except BaseException as error:
                leave_traceback(error)
                raise
            finally:
                if thread is not None:
                    thread.differentiating = False
            try:
                if thread is not None and (is_part is None or not is_part(args, kwargs)):
                    _end(thread, gradient, began_ns)
            except Exception:
                failed("after a gradient")
            return result

        return take_gradient

    return around


def _makes_graph(args, kwargs):
    """Return whether `backward` with these arguments makes a graph, of which another gradient is to be taken."""
    return bool(kwargs.get("create_graph") or (len(args) > _CREATE_GRAPH_AT and args[_CREATE_GRAPH_AT]))


def _end(thread, gradient, began_ns):
    """Note that an outermost gradient was taken: the fifth makes steps of all so far."""
    if thread.gradients is None:
        optimizers.end_step(gradient)
        thread.whole_steps = []  # what is compiled from now on may be a whole step all the same
        return
    latest_ns = thread.gradients[-1][2] if thread.gradients else began_ns
    start_ns = max(latest_ns, optimizers.calls_ended_ns(THREAD.current, thread))
    thread.gradients.append((gradient, start_ns, UNPATCHED.monotonic_ns()))
    if len(thread.gradients) == LEAST_GRADIENTS:
        steps, thread.gradients = thread.gradients, None
        for gradient, start_ns, end_ns in steps:
            optimizers.find_loop(gradient).record(start_ns, end_ns)
        thread.mark_ns = end_ns
