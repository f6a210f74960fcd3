"""Run several batches in one call of Keras' train function; the value is how many."""

import sys

from tfprobe_agent.core.threads import THREAD
from tfprobe_agent.trial import units
from tfprobe_agent.trial.fixes import calls

from . import COMPILING, replace_methods

MODULES = COMPILING
_OLD_NAME = "experimental_steps_per_execution"
_BACKEND = "keras.src.backend.config"


def patch(name, module, value, note):
    """Give `compile` the argument where the job gives none."""
    replace_methods(module, ("compile",), lambda original: _compile(original, value, note))


def _compile(original, value, note):
    arguments = calls.Arguments(original)

    def compile_(self, *args, **kwargs):
        everything = (self,) + args
        if "steps_per_execution" not in arguments.names:
            note.skipped("this Keras has no steps_per_execution")
        elif arguments.get("steps_per_execution", everything, kwargs) not in (None, 1) or _OLD_NAME in kwargs:
            note.skipped("the program has set steps_per_execution")
        elif arguments.get("run_eagerly", everything, kwargs):
            note.skipped("compiled with run_eagerly")
        elif _backend() == "torch":
            note.skipped("not supported by Keras on PyTorch")
        else:
            everything, kwargs = arguments.put("steps_per_execution", value, everything, kwargs)
            note.applied()
            units.counts_as("fit", None, _FitSteps(value) if _backend() == "tensorflow" else value)
            units.counts_as("evaluate", None, value)
            units.counts_as("predict", None, value)
        return original(*everything, **kwargs)

    return compile_


def _backend():
    backend = getattr(sys.modules.get(_BACKEND), "backend", None)
    return backend() if callable(backend) else "tensorflow"


class _FitSteps:
    """How many batches a call of a train function was: at the end of an epoch fewer may be left."""

    def __init__(self, value):
        self.value = value
        self.before = {}  # steps of an optimizer by its id

    def __call__(self):
        phase = THREAD.current.phase
        optimizer = getattr(phase.model() if phase is not None else None, "optimizer", None)
        iterations = getattr(optimizer, "iterations", None)
        if not hasattr(iterations, "numpy"):
            return self.value
        done = int(iterations.numpy())
        batches = done - self.before.get(id(optimizer), 0)
        self.before[id(optimizer)] = done
        return batches if 0 < batches <= self.value else self.value
