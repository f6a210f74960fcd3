"""Where a job waits for what JAX computes: the methods of its arrays through which a value reaches Python.

On a CPU, numpy reads an array as a buffer, which passes none of them: `numpy.asarray` is not seen there. What a library
converts with it, such as Keras, is seen where that library does.
"""

import functools
import sys
from _operator import methodcaller

from tfprobe_agent import patching
from tfprobe_agent.core.guard import STATE, failed
from tfprobe_agent.core.threads import THREAD
from tfprobe_agent.frameworks import queued_steps
from tfprobe_agent.interruptions import leave_traceback
from tfprobe_agent.unpatched import UNPATCHED

_ARRAYS = "jax._src.array"
# Asked of an array in one call of a C function, so that no other thread can delete it in between: to ask a deleted
# array whether it is ready ends the process, up to JAX 0.10.
_QUESTIONS = methodcaller("is_deleted"), methodcaller("is_ready")


def patch(module):
    """Note the waits of the job in jax, which has just been imported."""
    patching.patch_call(module, "block_until_ready", lambda original: _around(original, _are_there))
    arrays = getattr(sys.modules.get(_ARRAYS), "ArrayImpl", None)
    if arrays is None:
        return  # another version: its steps are counted, and their times are those of calls
    methods = vars(arrays)
    for name in ("block_until_ready", "item"):
        if callable(methods.get(name)):
            setattr(arrays, name, _like(methods[name], _around(methods[name], _is_there)))
    value = methods.get("_value")
    if isinstance(value, property) and value.fget is not None:
        reader = _like(value.fget, _around(value.fget, _is_there))
        arrays._value = property(reader, value.fset, value.fdel, value.__doc__)


def _like(original, replacement):
    """Return the replacement with the names of a method, which may be one of C++ whose qualified name is no string."""
    assigned = [name for name in functools.WRAPPER_ASSIGNMENTS if isinstance(getattr(original, name, None), str)]
    return functools.update_wrapper(replacement, original, assigned)


def patch_conversion(module, name):
    """Note the waits of a function of a module that converts an array, its first argument, to one of numpy."""
    patching.patch_call(module, name, lambda original: _around(original, _is_array_there))


def wait_for(values):
    """Wait for arrays without noting that the job did: for a single array, jax calls its method."""
    function = sys.modules["jax"].block_until_ready
    current = THREAD.current
    current.depth += 1
    try:
        getattr(function, "__wrapped__", function)(values)
    finally:
        current.depth -= 1


def are_ready(values):
    """Return whether there is nothing to wait for; of many arrays the first and the last are asked.

    What one call has queued is there at once. An array that was deleted or donated will say so itself.
    """
    arrays = sys.modules["jax"].tree_util.tree_leaves(values)
    return all([_is_there((array,)) for array in arrays[:1] + arrays[1:][-1:] if hasattr(array, "is_ready")])


def _are_there(args):
    return are_ready(args[:1])


def _is_array_there(args):
    """Return whether an array of JAX is there; None for anything else, which nobody waits for."""
    return are_ready(args[:1]) if args and hasattr(args[0], "is_ready") else None


def _is_there(args):
    return any(map(methodcaller("__call__", args[0]), _QUESTIONS))


def _around(original, is_ready):
    """Return what waits as the original does, and notes it.

    `is_ready` says of its arguments whether it need not, None if there is nothing to wait for.
    """

    def wait(*args, **kwargs):
        began_ns = was_ready = None
        try:
            current = THREAD.current
            if current.queued and not current.depth and not STATE.disabled:
                was_ready = is_ready(args)
                if was_ready is not None:
                    began_ns = UNPATCHED.monotonic_ns()
        except Exception:
            failed("before a wait")
        try:
            result = original(*args, **kwargs)
        except BaseException as error:
            leave_traceback(error)
            raise
        try:
            if began_ns is not None:
                queued_steps.waited(began_ns, was_ready)
        except Exception:
            failed("after a wait")
        return result

    return wait
