"""Keras 3 on JAX: its train functions are plain, and call what they compiled with `jax.jit` for each batch.

These calls are below a step of Keras and no steps themselves.
"""

import sys

from tfprobe_agent.core import step_wrapper
from tfprobe_agent.frameworks.jax import functions, profiler, waits

CLASSES = ("JAXTrainer",)
# A train function returns before its step has run.
QUEUES = True
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
