"""Keras 3 on PyTorch: its train functions are plain, and its optimizers are none of PyTorch's.

What a step of Keras calls below it is no step itself: neither a module nor what `jit_compile` has compiled.
"""

import functools
import sys

from tfprobe_agent import patching
from tfprobe_agent.frameworks.torch import gradients, optimizers, profiler

CLASSES = ("TorchTrainer",)
QUEUES = False

trace_on_batch = trace_function = profiler.trace


def executes():
    """Return whether a call executes now, rather than being traced by TorchScript."""
    return not sys.modules["torch"]._C._is_tracing()


def adopt(_function, _kind, _name):
    """Return False: each train function needs a step wrapper."""
    return False


def begin_loop(_loop, _function):
    """Prepare a loop that is about to run for another model: there is nothing to do."""


def can_count(_model):
    """Return whether the optimizer's count of steps can be read here and now."""
    return executes()


def count_of(iterations):
    """Return the optimizer's count of steps; a negative number where reading it would wait for a device."""
    value = iterations._value
    return int(value.detach()) if getattr(value, "is_cpu", False) else -1


def patch_optimizer(module):
    """Have updates by an optimizer of Keras end steps, as those of PyTorch do: in loops without `fit`."""
    patching.patch_method(module.BaseOptimizer, "__init__", gradients.around_preparation)
    around = functools.partial(optimizers.around_step, optimizers.compiling_test(sys.modules["torch"]))
    for name in ("apply_gradients", "apply"):  # the one calls the other
        patching.patch_method(module.BaseOptimizer, name, around)
