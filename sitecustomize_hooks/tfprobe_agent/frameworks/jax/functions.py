"""The jax.jit wrappers: outermost calls that execute, of functions that the program made with `jax.jit` or `jax.pmap`.

The package's attributes are replaced, which JAX's own modules do not use: what they compile for `jax.numpy` never meets
a wrapper. A compiled function cannot be patched itself: its calls do not pass its type before Python 3.12. So a program
gets an object that stands for it, and only ahead-of-time executables have a class whose method is patched.
"""

import functools
import inspect
import sys
import types
import weakref
from _operator import getitem

from tfprobe_agent import patching
from tfprobe_agent.core import step_wrapper
from tfprobe_agent.core.guard import failed
from tfprobe_agent.core.recorder import current_recorder, find_named
from tfprobe_agent.core.steps_layout import RETRACES
from tfprobe_agent.core.threads import cache_loop
from tfprobe_agent.interruptions import leave_traceback, let_through

from . import profiler, settings

_CORE = "jax._src.core"
_LONGEST_NAME = 160


class _Tracing:
    """Whether JAX traces in the calling thread; its function is looked up once: every step asks it."""

    state_is_clean = None


def executes():
    """Return whether a call executes now, rather than being traced into another function."""
    state_is_clean = _Tracing.state_is_clean
    if state_is_clean is None:
        state_is_clean = _Tracing.state_is_clean = sys.modules[_CORE].trace_state_clean
    return state_is_clean()


def patch(module):
    """Let the package's functions return wrapped functions; `module` is jax, or one of its experimental modules."""
    for name in ("jit", "pmap", "pjit"):
        function = module.__dict__.get(name)
        if inspect.isfunction(function):
            patching.patch_call(module, name, _around_maker)


def patch_executables(module):
    """Patch the class of ahead-of-time executables in jax._src.stages."""
    patching.patch_method(
        module.Compiled, "__call__", step_wrapper.make(_find_executable, profiler.trace, applies=executes)
    )


def _around_maker(original):
    """Return `jax.jit` with what it makes wrapped: a function, or without one a decorator that makes it later."""

    def make(*args, **kwargs):
        try:
            made = original(*args, **kwargs)
        except BaseException as error:
            leave_traceback(error)
            raise
        try:
            if _is_compiled(made):
                return CompiledFunction(made)
            if callable(made):
                return functools.wraps(made)(_around_maker(made))
        except Exception:
            failed("wrapping a compiled function")
        return made

    return make


def _is_compiled(made):
    """Return whether jit or pmap returned a compiled function; its type differs from version to version."""
    return callable(made) and hasattr(made, "lower") and not is_wrapped(made)


def _inner(name):
    """Return a property that is the function's own."""
    return property(lambda self: getattr(self._tfprobe_function, name))


class CompiledFunction:
    """Stands for a function of jax.jit: its outermost calls that execute are steps; all else is the function's own."""

    __slots__ = ("__weakref__", "_tfprobe_call", "_tfprobe_function")

    def __init__(self, function):
        put = object.__setattr__
        put(self, "_tfprobe_function", function)
        put(self, "_tfprobe_call", _step_wrapper(function, self))

    def __call__(self, *args, **kwargs):
        try:
            return self._tfprobe_call(*args, **kwargs)
        except BaseException as error:
            leave_traceback(error)
            raise

    def __get__(self, instance, owner=None):
        return self if instance is None else types.MethodType(self, instance)

    def __getattr__(self, name):
        return getattr(self._tfprobe_function, name)

    def __setattr__(self, name, value):
        setattr(self._tfprobe_function, name, value)

    def __delattr__(self, name):
        delattr(self._tfprobe_function, name)

    def __dir__(self):
        return dir(self._tfprobe_function)

    def __repr__(self):
        return repr(self._tfprobe_function)

    def __reduce_ex__(self, protocol):
        # A pickle is that of the function: whoever loads it need not be recorded.
        return getitem, ((self._tfprobe_function,), 0)

    def __copy__(self):
        return sys.modules["copy"].copy(self._tfprobe_function)

    __class__ = property(lambda self: type(self._tfprobe_function))
    __doc__ = _inner("__doc__")
    __module__ = _inner("__module__")
    __dict__ = _inner("__dict__")


def _step_wrapper(function, owner):
    """Return what calls the function as a step; it keeps neither `owner` nor an argument alive."""
    reference = weakref.ref(owner)
    name = name_of(function)

    def find(_current, _args, _kwargs):
        instance = reference()
        if instance is None or not executes():
            return None
        loop = find_named("jit", name)
        cache_loop(id(instance), instance, loop)
        if loop is not None:
            loop.owner = reference
            loop.after_fold = _note_retraces
            note_devices_after(loop)
        return loop

    return step_wrapper.make(find, profiler.trace_function, applies=executes)(function, owner)


def _find_executable(current, args, _kwargs):
    """Return the Loop of a call of an ahead-of-time executable."""
    if not args or not executes():
        return None
    instance = args[0]
    loop = current.loop_cache.get(id(instance))
    if loop is None:
        loop = find_named("compiled", _executable_name(instance))
        cache_loop(id(instance), instance, loop)
    return loop


def _executable_name(instance):
    """Return the name of the program of an executable, which is `jit_` and the function's."""
    try:
        name = instance._executable.xla_executable.hlo_modules()[0].name
    except Exception:
        let_through()
        return "compiled"  # a private name of another version: the loop goes without
    return name[4:] if name.startswith("jit_") else name


def name_of(function):
    """Return the name by which the program knows a function."""
    name = getattr(function, "__name__", None)
    return name[:_LONGEST_NAME] if isinstance(name, str) else type(function).__name__


def is_wrapped(function):
    """Return whether this stands for a compiled function."""
    return type(function) is CompiledFunction


def note_devices_after(loop):
    """Store the devices once this loop has run a step: before it there may be none, and at exit JAX has let them go."""
    if loop.n == 0 and current_recorder().process_dir.devices is None:
        loop.after_first, loop.next_fold = _note_devices, 1


def _note_devices(_loop):
    settings.note_devices(current_recorder())


def _note_retraces(loop):
    """Store how often this loop's function was compiled for other arguments after the first."""
    note_retraces_of(loop, loop.owner() if loop.owner is not None else None)


def note_retraces_of(loop, function):
    """Store how often this function, which the steps of a loop call, was compiled for other arguments."""
    size = getattr(function, "_cache_size", None)
    size = size() if callable(size) else size  # a number in functions of pmap in JAX 0.4
    retraces = size - 1 if isinstance(size, int) else 0
    if retraces > loop.retraces:
        loop.retraces = retraces
        loop.words[loop.base + RETRACES] = retraces
        current_recorder().process_dir.event("retrace", work=loop.index, count=retraces)
