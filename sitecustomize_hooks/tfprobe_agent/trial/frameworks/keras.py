"""Keras on PyTorch in a trial: the weights of the model that is trained, whose optimizers are none of PyTorch's."""

import sys

from tfprobe_agent.core.threads import THREAD

MODULES = ()
_BACKEND = "keras.src.backend.config"


def patch(name, module, seed):
    """Do nothing: Keras draws its seeds by Python's random numbers."""


def arrays():
    """Return the trained variables by name; why there are none, if so."""
    backend = getattr(sys.modules.get(_BACKEND), "backend", None)
    phase = THREAD.current.phase
    model = phase.model() if phase is not None else None
    if model is None or not callable(backend) or backend() != "torch":
        return "no model of Keras on PyTorch is trained"
    return [(str(variable.path), variable.value.detach().cpu().numpy()) for variable in model.trainable_variables]
