"""Steps that are calls: of a module in inference, and of what torch.compile returns where that is the whole step.

No module of a training program is touched, nor anything that torch.compile could trace. A module is wrapped by `eval()`
and left alone again by `train()`: PyTorch calls an attribute of the instance in place of the usual method, if there is
one, and leaves it out of copies and pickles. From the first compilation on only compiled modules are wrapped, whose
call is outside of what is compiled.

A call without gradients may be part of a training step (a teacher model, a metric). So after an optimizer's mark calls
are steps only if there are several before the next one.
"""

import functools
import sys
import weakref

from tfprobe_agent import patching
from tfprobe_agent.core import step_wrapper
from tfprobe_agent.core.guard import STATE, failed
from tfprobe_agent.core.recorder import find_named
from tfprobe_agent.core.threads import THREAD, cache_loop
from tfprobe_agent.interruptions import leave_traceback
from tfprobe_agent.unpatched import UNPATCHED

from . import gradients, optimizers, profiler
from .thread_state import torch_thread

FORWARD, COMPILED = "forward", "compiled_step"
_MODULES = "torch.nn.modules.module"
_OPTIMIZED = "torch._dynamo.eval_frame"
# Attribute of a module that is called in place of its method; PyTorch 2.1 introduced it for `Module.compile`.
_CALLED = "_compiled_call_impl"
# Calls without gradients after a mark that are an evaluation and no part of a training step.
LEAST_CALLS = 5
# Calls of a compiled function that computes gradients and never met an optimizer's mark: it is the whole step.
LEAST_WHOLE_STEPS = 32
_WRAPPERS = ("DataParallel", "DistributedDataParallel", "FullyShardedDataParallel")


class _Wrapped:
    """What was wrapped in this process."""

    def __init__(self):
        self.modules = weakref.WeakSet()
        self.compiles = False


WRAPPED = _Wrapped()


def patch(module):
    """Patch what begins an evaluation and what compiles in PyTorch, which has just been imported."""
    cls = getattr(sys.modules.get(_MODULES), "Module", None)
    if cls is not None and _CALLED in vars(cls):
        patching.patch_call(cls, "train", functools.partial(_around_train, module))
        patching.patch_call(cls, "_replicate_for_data_parallel", _around_replicate)
    patching.patch_call(module, "compile", _around_compile)


def patch_compiler(module):
    """Patch torch._dynamo.eval_frame: whatever it is about to trace is as the program made it."""
    context = getattr(module, "OptimizeContext", None)
    if context is not None:
        patching.patch_call(context, "__init__", _around_compiler)


def is_inference():
    """Return whether a call computes no gradients, is no part of a training step, and is not traced by TorchScript."""
    torch = sys.modules["torch"]
    return torch_thread().lone_calls is None and not torch.is_grad_enabled() and not torch.jit.is_tracing()


def _around_train(torch, original):
    """Return `Module.train`, which `eval` calls, too, and which calls itself for each module inside."""
    is_compiling = optimizers.compiling_test(torch)

    def train(self, *args, **kwargs):
        if is_compiling():
            return original(self, *args, **kwargs)
        outermost = False
        try:
            thread = torch_thread()
            outermost, thread.switching = not thread.switching, True
            _unwrap(self)
        except Exception:
            failed("before Module.train")
        try:
            result = original(self, *args, **kwargs)
        except BaseException as error:
            leave_traceback(error)
            raise
        finally:
            if outermost:
                thread.switching = False
        try:
            if outermost and not STATE.disabled and not self.training:
                profiler.end_window(thread, "an evaluation began before the step was over")
                _wrap(self)
        except Exception:
            failed("after Module.train")
        return result

    return train


def _around_replicate(original):
    """Return what copies a module for another device, without the wrapper, which calls the module that it is of."""

    def replicate(self, *args, **kwargs):
        try:
            made = original(self, *args, **kwargs)
        except BaseException as error:
            leave_traceback(error)
            raise
        try:
            _unwrap(made)
        except Exception:
            failed("replicating a module")
        return made

    return replicate


def _around_compiler(original):
    def init(self, *args, **kwargs):
        try:
            if not WRAPPED.compiles:
                WRAPPED.compiles = True
                gradients.leave()
                for module in list(WRAPPED.modules):
                    if not _is_compiled(module):
                        _unwrap(module)
        except Exception:
            failed("before a compilation")
        try:
            original(self, *args, **kwargs)
        except BaseException as error:
            leave_traceback(error)
            raise
        try:
            optimizers.hook_again()
        except Exception:
            failed("after the set-up of a compilation")

    return init


def _around_compile(original):
    """Return `torch.compile` with what it returns wrapped, unless that is a decorator."""

    def compile(model=None, *args, **kwargs):
        try:
            made = original(model, *args, **kwargs)
        except BaseException as error:
            leave_traceback(error)
            raise
        try:
            if model is None or made is model:
                return made
            if _is_compiled(made):
                if not made._orig_mod.training:
                    _wrap(made)
            elif callable(made) and not isinstance(made, type):
                return _compiled_step(made, _name_of(model))
        except Exception:
            failed("after torch.compile")
        return made

    return compile


def _is_compiled(module):
    cls = getattr(sys.modules.get(_OPTIMIZED), "OptimizedModule", None)
    return cls is not None and isinstance(module, cls)


class _Call(functools.partial):
    """The wrapper as an attribute of a module: no plain function, which scripting would try to compile.

    It calls the module that it is of, so where a program copies or pickles what a module consists of, None is there
    instead, which PyTorch takes for no wrapper.
    """

    def __copy__(self):
        return None

    def __deepcopy__(self, memo):
        return None

    def __reduce_ex__(self, protocol):
        return type(None), ()


def _wrap(module):
    """Have the calls of a module counted, if nothing else is called in place of its own method."""
    if module.__dict__.get(_CALLED) is not None or (WRAPPED.compiles and not _is_compiled(module)):
        return
    reference = weakref.ref(module)

    def call(*args, **kwargs):
        try:
            return reference()._call_impl(*args, **kwargs)
        except BaseException as error:
            leave_traceback(error)
            raise

    def find(current, _args, _kwargs):
        if not is_inference():
            return None
        instance = reference()
        loop = find_named(FORWARD, _name_of(instance))
        cache_loop(id(instance), instance, loop)
        return loop

    waiting = functools.partial(_waiting, FORWARD, _name_of(module))
    made = step_wrapper.make(find, profiler.trace, applies=is_inference, otherwise=waiting)(call, module)
    module.__dict__[_CALLED] = _Call(made)
    WRAPPED.modules.add(module)


def _unwrap(module):
    if isinstance(module.__dict__.get(_CALLED), _Call):
        del module.__dict__[_CALLED]


def _compiled_step(function, name):
    """Return a compiled function with its calls counted where they are whole steps.

    It has the attributes of the original, by which torch.compile passes over it inside another compiled function.
    """

    def find(current, _args, _kwargs):
        if not _is_whole_step():
            return None
        loop = find_named(COMPILED, name)
        cache_loop(id(token), token, loop)
        return loop

    token = _Token()
    waiting = functools.partial(_waiting, COMPILED, name)
    made = step_wrapper.make(find, profiler.trace, applies=_is_whole_step, otherwise=waiting)(function, token)
    return functools.update_wrapper(made, function)


class _Token:
    """Stands for one compiled function."""

    __slots__ = ("__weakref__",)


def _is_whole_step():
    """Return whether a call of a compiled function is a step: in inference, or where no optimizer's step was seen."""
    if sys.modules["torch"].is_grad_enabled():
        return torch_thread().whole_steps is True
    return is_inference()


def _waiting(kind, name, original):
    """Return what calls a callable that may turn out to be a step, and records the calls so far when it does."""

    def call(*args, **kwargs):
        current = began_ns = None
        try:
            current = THREAD.current
            if not current.depth and not STATE.disabled:
                thread, has_gradients = torch_thread(), sys.modules["torch"].is_grad_enabled()
                calls = thread.whole_steps if has_gradients else thread.lone_calls
                if isinstance(calls, list) and (kind == COMPILED or not has_gradients):
                    current.depth = 1
                    began_ns = UNPATCHED.monotonic_ns()
        except Exception:
            failed("before a call")
        try:
            result = original(*args, **kwargs)
        except BaseException as error:
            leave_traceback(error)
            raise
        finally:
            if began_ns is not None:
                current.depth = 0
        try:
            if began_ns is not None:
                calls.append((began_ns, UNPATCHED.monotonic_ns()))
                if len(calls) == (LEAST_WHOLE_STEPS if has_gradients else LEAST_CALLS):
                    profiler.end_window(thread, "an evaluation began before the step was over")
                    loop = find_named(kind, name)
                    for start_ns, end_ns in calls:
                        loop.record(start_ns, end_ns)
                    if has_gradients:
                        thread.whole_steps = True
                    else:
                        thread.lone_calls = None
        except Exception:
            failed("after a call")
        return result

    return call


def _name_of(called):
    """Return the name by which the program knows a module or function."""
    for attribute in ("_orig_mod", "module"):
        inner = getattr(called, attribute, None)
        if inner is not None and (attribute == "_orig_mod" or type(called).__name__ in _WRAPPERS):
            called = inner
    owner = getattr(called, "__self__", None)
    if owner is not None and getattr(called, "__name__", None) == "_call_impl":
        called = owner
    name = getattr(called, "__name__", None)
    return name[:160] if isinstance(name, str) else type(called).__name__
