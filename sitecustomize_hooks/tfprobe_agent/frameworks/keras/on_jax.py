"""Keras 3 on JAX: its train functions are plain, and call what they compiled with `jax.jit` for each batch.

They take the batch from an iterator first. So a step is the call of the compiled function: what the iterator does is
time before it, as in any other loop. Where one call of a train function is several batches, or nothing is compiled,
that call is the step, and compiled functions below it are none.
"""

import sys

from tfprobe_agent.core import step_wrapper
from tfprobe_agent.frameworks.jax import functions, profiler, waits
from tfprobe_agent.frameworks.jax.stand_in import is_stand_in

_TRAINER = "keras.src.backend.jax.trainer"
# A predict function calls another that calls the compiled one.
_DEPTH = 2
CLASSES = ("JAXTrainer",)
# A train function returns before its step has run.
QUEUES = True
executes = functions.executes
trace_function = profiler.trace_function


def patch():
    """Note where Keras waits for the values of its logs: numpy converts them, which is not seen elsewhere on a CPU."""
    backend = sys.modules.get("keras.src.backend")
    if backend is not None:
        waits.patch_conversion(backend, "convert_to_numpy")


class _BatchWindow(profiler.Window):
    """A window around a call of `train_on_batch` or the like: the arrays of such a step are the model's."""

    def arguments(self):
        return _arrays(self.args[0])

    def results(self, _result):
        return _arrays(self.args[0])


def trace_on_batch(loop, why, original, args, kwargs):
    """Open a window around a call of a model's method, or decline."""
    return step_wrapper.open_window(loop, _BatchWindow(original, args, kwargs))


def adopt(function, kind, name):
    """Count the calls of the compiled function of a train function as steps; return False if it has no such one."""
    compiled = _compiled_in(function)
    if compiled is None:
        return False
    functions.count_as(compiled, kind, name)
    return True


def _compiled_in(function):
    """Return the compiled function that a train function calls once for each of its calls, None if there is none.

    Keras defines it in another: each refers to the next one alone. One that repeats it refers to the model, too.
    """
    for _ in range(_DEPTH):
        cells = getattr(function, "__closure__", None) or ()
        if len(cells) != 1 or getattr(function, "__module__", None) != _TRAINER:
            return None
        function = cells[0].cell_contents
        inner = getattr(function, "jitted_fn", function)  # what flax.nnx.jit made
        if is_stand_in(inner):
            return inner
    return None


def begin_loop(loop, _function):
    """Prepare a loop that is about to run for another model."""
    functions.note_devices_after(loop)


def can_count(_model):
    """Return whether the optimizer's count of steps can be read here and now."""
    return functions.executes()


def count_of(iterations):
    """Return the value of the optimizer's count of steps; a negative number where reading it would wait for a step."""
    value = iterations._value
    numpy = sys.modules.get("numpy")
    if numpy is None or not hasattr(value, "is_ready") or not waits.are_ready([value]) or value.is_deleted():
        return -1
    return int(numpy.asarray(value))


def _arrays(model):
    """Return the arrays of a model's variables and of its optimizer's."""
    holders = model, getattr(model, "optimizer", None)
    return [getattr(variable, "_value", None) for holder in holders for variable in getattr(holder, "variables", ())]
