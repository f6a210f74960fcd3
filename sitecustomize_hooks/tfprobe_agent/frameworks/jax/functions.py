"""The jax.jit wrappers: outermost calls that execute, of functions that the program made with `jax.jit` and the like.

Gradients that the program takes outside of a compiled function are steps, too: of a program that compiles no step.

The package's attributes are replaced, which JAX's own modules do not use: what they compile for `jax.numpy` never meets
a wrapper. What the program gets stands for the function; of ahead-of-time executables the class is patched.
"""

import functools
import inspect
import os
import sys
import weakref

from tfprobe_agent import patching
from tfprobe_agent.core import step_wrapper
from tfprobe_agent.core.guard import failed
from tfprobe_agent.core.recorder import current_recorder, find_named
from tfprobe_agent.core.steps_layout import RETRACES
from tfprobe_agent.core.threads import cache_loop
from tfprobe_agent.frameworks import queued_steps
from tfprobe_agent.interruptions import leave_traceback, let_through

from . import profiler, settings, signatures
from .stand_in import is_stand_in, stand_in, stood_for

_CORE = "jax._src.core"
# Modules that say which frames are the program's: in tracebacks, and as the lines that compiled code comes from.
_FRAME_FILTERS = ("jax._src.traceback_util", "jax._src.source_info_util")
_AGENT = os.path.join(os.path.dirname(step_wrapper.__file__), os.pardir)
_COMPILING = ("jit", "pmap", "pjit")
_DIFFERENTIATING = ("grad", "value_and_grad")
_LONGEST_NAME = 160


class _Tracing:
    """Whether JAX traces in the calling thread; its function is looked up once: every step asks it."""

    state_is_clean = None


class Compilations:
    """Whether `compiles` sees each compilation: then no function need be asked how many it had."""

    are_seen = False


def executes():
    """Return whether a call executes now, rather than being traced into another function."""
    state_is_clean = _Tracing.state_is_clean
    if state_is_clean is None:
        state_is_clean = _Tracing.state_is_clean = _state_test(sys.modules[_CORE])
    return state_is_clean()


def _state_test(core):
    """Return JAX's test of whether it traces, or one that is equal and faster, where JAX has a stack of traces.

    Up to JAX 0.4.35 its own makes three objects to compare with, which takes 1 us.
    """
    original = core.trace_state_clean
    local, evaluates = getattr(core, "thread_local_state", None), getattr(core, "EvalTrace", None)
    state = getattr(local, "trace_state", None)
    if evaluates is None or not all([hasattr(state, name) for name in ("trace_stack", "substack", "axis_env")]):
        return original

    def state_is_clean():
        state = local.trace_state
        stack = state.trace_stack
        main = stack.dynamic
        return (
            main.trace_type is evaluates
            and len(stack.stack) == len(state.substack) == 1
            and stack.stack[0] is main
            and not state.axis_env
        ) or original()

    return state_is_clean


def patch(module):
    """Let the package's functions return wrapped functions; `module` is jax, or one of its experimental modules."""
    for name in (*_COMPILING, "shard_map"):
        around = _around_compiling if name in _COMPILING else _around_mapping
        patching.patch_call(module, name, around)
        _patch_deprecated(module, name, around)
    if module.__name__ == "jax":
        for name in _DIFFERENTIATING:
            patching.patch_call(module, name, _around_differentiating)
        patching.patch_call(module, "eval_shape", _around_eval_shape)
        _leave_out_own_frames()


def _patch_deprecated(module, name, around):
    """Replace a function that a module gives, with a warning, by its `__getattr__`."""
    deprecated = module.__dict__.get("_deprecations")
    entry = deprecated.get(name) if isinstance(deprecated, dict) else None
    if isinstance(entry, tuple) and len(entry) == 2 and inspect.isfunction(entry[1]):
        message, function = entry
        deprecated[name] = message, functools.update_wrapper(around(function), function)


def patch_executables(module):
    """Patch the class of ahead-of-time executables in jax._src.stages."""
    patching.patch_method(
        module.Compiled, "__call__", step_wrapper.make(_find_executable, profiler.trace, applies=executes)
    )


def _leave_out_own_frames():
    """Let JAX pass over the agent's frames as over those of other libraries, which register their files likewise."""
    for name in _FRAME_FILTERS:
        register = getattr(sys.modules.get(name), "register_exclusion", None)
        if callable(register):
            register(os.path.normpath(_AGENT) + os.sep)


def _around_compiling(original):
    """Return `jax.jit` with what it makes wrapped."""
    return _around_maker(original, _is_compiled)


def _around_mapping(original):
    """Return `jax.shard_map` with what it makes wrapped: a plain function, which executes where it is not traced."""
    return _around_maker(original, _was_given("f"))


def _around_differentiating(original):
    """Return `jax.grad` with what it makes wrapped: outside of a trace, a call of it runs op by op, and is a step."""
    return _around_maker(original, _was_given("fun"), make_wrapper=_gradient_wrapper)


def _is_compiled(made, _args, _kwargs):
    """Return whether jit or pmap returned a compiled function; its type differs from version to version."""
    return hasattr(made, "lower")


def _was_given(name):
    """Return the test whether a maker made a function, rather than a decorator: it was given one, perhaps by name."""

    def was_given(_made, args, kwargs):
        return (args[0] if args else kwargs.get(name)) is not None

    return was_given


# Its frame has the file name of the import machinery: `warnings` does not count it, so that a deprecated argument is
# still reported at the program's line.
_MAKER = """
def making(original, wrapped, leave_traceback):
    def make(*args, **kwargs):
        try:
            made = original(*args, **kwargs)
        except BaseException as error:
            leave_traceback(error)
            raise
        return wrapped(made, args, kwargs)
    return make
"""
_made = {}
exec(compile(_MAKER, "<frozen importlib._bootstrap_external>", "exec"), _made)


def _around_maker(original, is_function, options=None, make_wrapper=None):
    """Return a maker of functions with these wrapped; it may return a decorator, with its options, that makes them.

    `make_wrapper(called, function, owner)` is by default that of compiled functions.
    """
    make_wrapper = make_wrapper or _step_wrapper

    def wrapped(made, args, kwargs):
        try:
            if not callable(made) or is_stand_in(made) or _is_of_jax(sys._getframe(2)):
                return made
            if is_function(made, args, kwargs):
                # Copies have no name of their own.
                called = name_of(made), kwargs if options is None else options
                return stand_in(made, functools.partial(make_wrapper, called))
            return functools.wraps(made)(_around_maker(made, is_function, kwargs, make_wrapper))
        except Exception:
            failed("wrapping a compiled function")
            return made

    return _made["making"](original, wrapped, leave_traceback)


def _is_of_jax(frame):
    """Return whether a frame is in one of JAX's own modules: what they compile is theirs, as if they had not asked."""
    name = frame.f_globals.get("__name__")
    return isinstance(name, str) and name.partition(".")[0] == "jax"


def _around_eval_shape(original):
    """Return `jax.eval_shape` that sees functions themselves: from JAX 0.10 on it asks for their very type."""

    def eval_shape(*args, **kwargs):
        try:
            if args and is_stand_in(args[0]):
                args = (stood_for(args[0]), *args[1:])
        except Exception:
            failed("before eval_shape")
        try:
            return original(*args, **kwargs)
        except BaseException as error:
            leave_traceback(error)
            raise

    return eval_shape


def count_as(compiled, kind, name):
    """Have the calls of a function that jit made counted as steps of a loop of another library."""
    made, place = compiled._make_call, (kind, name)
    if made.keywords.get("place") != place:
        compiled._make_call = functools.partial(made.func, *made.args, place=place)
        compiled.__call__ = compiled._make_call(stood_for(compiled), compiled)


def _step_wrapper(called, function, owner, place=None):
    """Return what calls the function as a step; it keeps neither `owner` nor an argument alive.

    `called` has the function's name, and the options of the maker; `place` the kind and the name of the loop, if that
    is not one of jit.
    """
    reference = weakref.ref(owner)
    name, options = called
    kind, loop_name = place or ("jit", name)

    def find(current, _args, _kwargs):
        instance = reference()
        if instance is None or not executes():
            return None
        loop = _find_loop(current, instance, kind, loop_name)
        if loop is not None:
            loop.owner = reference
            loop.after_fold = None if Compilations.are_seen else _note_retraces
        return loop

    find.signatures = signatures.Signatures(name, options)
    return step_wrapper.make(find, profiler.trace_function, applies=executes)(function, owner)


def _gradient_wrapper(called, function, owner):
    """Return what calls a gradient as a step: op by op, so that no compilation is one of its own."""
    reference, name = weakref.ref(owner), called[0]

    def find(current, _args, _kwargs):
        instance = reference()
        if instance is None or not executes():
            return None
        return _find_loop(current, instance, "grad", name)

    return step_wrapper.make(find, profiler.trace_function, applies=executes)(function, owner)


def _find_executable(current, args, _kwargs):
    """Return the Loop of a call of an ahead-of-time executable."""
    if not args or not executes():
        return None
    instance = args[0]
    loop = current.loop_cache.get(id(instance))
    return _find_loop(current, instance, "compiled", _executable_name(instance)) if loop is None else loop


def _find_loop(current, instance, kind, name):
    """Return the Loop of calls of an object, which only queue their steps; None if there is no room for another."""
    loop = find_named(kind, name)
    cache_loop(id(instance), instance, loop)
    if loop is not None:
        queued_steps.enroll(current, loop)
        note_devices_after(loop)
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


def note_devices_after(loop):
    """Store the devices once this loop has run a step: before it there may be none, and at exit JAX has let them go."""
    if loop.n == 0 and current_recorder().process_dir.devices is None:
        loop.after_first, loop.next_fold = _note_devices, 1


def _note_devices(_loop):
    settings.note_devices(current_recorder())


def _note_retraces(loop):
    """Store how often this loop's function was compiled for other arguments, where compilations are not seen."""
    function = loop.owner() if loop.owner is not None else None
    size = getattr(function, "_cache_size", None)
    size = size() if callable(size) else size  # a number in functions of pmap in JAX 0.4
    retraces = size - 1 if isinstance(size, int) else 0
    if retraces > loop.retraces:
        loop.retraces = retraces
        loop.words[loop.base + RETRACES] = retraces
        current_recorder().process_dir.event("retrace", work=loop.index, count=retraces)
