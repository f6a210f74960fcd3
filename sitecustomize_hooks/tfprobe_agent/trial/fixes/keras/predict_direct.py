"""Predict one batch that is in memory by `predict_on_batch`: `predict` prepares a pipeline and callbacks each time."""

import sys

from tfprobe_agent.trial import units
from tfprobe_agent.trial.fixes import calls

from . import COMPILING, replace_methods

# Keras 3 defines `predict` for each backend.
MODULES = COMPILING + tuple("keras.src.backend.%s.trainer" % backend for backend in ("tensorflow", "jax", "torch"))
_OPS = "tensorflow.python.framework.ops"
# Keras takes batches of this many samples unless the program says otherwise.
BATCH = 32


def patch(name, module, value, note):
    """Replace `predict` of the class of models."""
    replace_methods(module, ("predict",), lambda original: _predict(original, note))


def _predict(original, note):
    arguments = calls.Arguments(original)

    def predict(self, *args, **kwargs):
        everything = (self,) + args
        why = _why_not(self, arguments, everything, kwargs)
        if why is not None:
            note.skipped(why)
            return original(*everything, **kwargs)
        units.counts_as("predict_on_batch", None, 1, "predict")
        note.applied()
        return self.predict_on_batch(arguments.get("x", everything, kwargs))

    return predict


def _why_not(model, arguments, args, kwargs):
    """Return why a call cannot be one of `predict_on_batch`, or None."""
    count = _samples(arguments.get("x", args, kwargs))
    if count is None:
        return "the data is no array"
    if not 0 < count <= (arguments.get("batch_size", args, kwargs) or BATCH):
        return "more than one batch"
    if arguments.get("callbacks", args, kwargs):
        return "with callbacks"
    if arguments.get("steps", args, kwargs) is not None:
        return "with a number of steps"
    executions = getattr(model, "_steps_per_execution", None)  # of Keras 2, which would ask for as many batches
    if hasattr(executions, "numpy") and int(executions.numpy()) > 1:
        return "several steps per execution"
    return None


def _samples(data):
    """Return the number of samples in an array or an eager tensor, None of anything else."""
    kinds = (
        getattr(sys.modules.get("numpy"), "ndarray", None),
        getattr(sys.modules.get(_OPS), "EagerTensor", None),
    )
    if not isinstance(data, tuple(kind for kind in kinds if isinstance(kind, type))) or not len(data.shape):
        return None
    return int(data.shape[0])
