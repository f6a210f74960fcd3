"""Keras 3 on JAX: its train functions are plain, and call what they compiled with `jax.jit` for each batch.

These calls are below a step of Keras and no steps themselves.
"""

import sys
import weakref

from tfprobe_agent.core import step_wrapper
from tfprobe_agent.frameworks.jax import functions, profiler
from tfprobe_agent.frameworks.jax.stand_in import is_stand_in

CLASSES = ("JAXTrainer",)
# Under which names the functions that Keras makes know the function inside.
_INNER = ("step_function", "_step_function")

executes = functions.executes
trace_function = profiler.trace_function


class _BatchWindow(profiler.Window):
    """A window around a call of `train_on_batch` or the like: the arrays of such a step are the model's."""

    def arguments(self):
        return _arrays(self.args[0])

    def results(self, _result):
        return _arrays(self.args[0])


def trace_on_batch(loop, why, original, args, kwargs):
    """Open a window around a call of a model's method, or decline."""
    return step_wrapper.open_window(loop, _BatchWindow(original, args, kwargs))


def adopt(_function, _kind, _name):
    """Return False: each train function needs a step wrapper."""
    return False


def begin_loop(loop, function):
    """Let a loop that is about to run for another model count how often the model's function was compiled."""
    functions.note_devices_after(loop)
    compiled = _compiled_in(function)
    reference = None if compiled is None else weakref.ref(compiled)
    loop.after_fold = None if reference is None else lambda loop: functions.note_retraces_of(loop, reference())


def can_count(_model):
    """Return whether the optimizer's count of steps can be read here and now."""
    return functions.executes()


def count_of(iterations):
    """Return the value of the optimizer's count of steps; a negative number where reading it would wait for a step."""
    value = iterations._value
    is_ready = getattr(value, "is_ready", None)
    numpy = sys.modules.get("numpy")
    if is_ready is None or numpy is None or not is_ready():
        return -1
    return int(numpy.asarray(value))


def _arrays(model):
    """Return the arrays of a model's variables and of its optimizer's."""
    holders = model, getattr(model, "optimizer", None)
    return [getattr(variable, "_value", None) for holder in holders for variable in getattr(holder, "variables", ())]


def _compiled_in(function):
    """Return the compiled function that a train function of Keras calls; None if it runs eagerly."""
    while not is_stand_in(function):
        names = getattr(getattr(function, "__code__", None), "co_freevars", ())
        inner = [cell for name, cell in zip(names, function.__closure__ or ()) if name in _INNER]
        if not inner:
            return None
        function = inner[0].cell_contents
    return function
