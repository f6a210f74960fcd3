"""Keras, of TensorFlow and by itself: its train, test and predict functions, and what its models do besides steps."""

import sys

from tfprobe_agent.core import framework
from tfprobe_agent.core.framework import Framework
from tfprobe_agent.frameworks import activity_hooks

from . import models

# Keras runs its steps with TensorFlow where this module is loaded, unless Keras 3 says something else in the other.
_TENSORFLOW = "tensorflow.python.client.session"
_CONFIG = "keras.src.backend.config"
# The other backends that are recorded.
_OTHERS = ("jax", "torch")


class Keras(Framework):
    """Keras as the recording sees it."""

    name = "keras"

    def patch(self, name, module):
        backend = _backend_of(name)
        if backend in _OTHERS:
            if framework.is_loaded(backend):
                _patch_on_other(backend, name, module)
        elif _TENSORFLOW in sys.modules or name.startswith("tensorflow."):
            _patch_on_tensorflow(name, module)

    def version(self):
        versions = [getattr(sys.modules.get(name), "__version__", None) for name in ("keras", "tf_keras")]
        return ([version for version in versions if isinstance(version, str)] or [None])[0]


def _backend_of(name):
    """Return the backend of the Keras 3 that this module belongs to, else None. TensorFlow may be loaded as well."""
    backend = getattr(sys.modules.get(_CONFIG), "backend", None)
    return backend() if name.startswith("keras.src.") and callable(backend) else None


def _patch_on_other(backend, name, module):
    if name == "keras.src.backend.jax.trainer":
        from . import on_jax

        models.patch_model(module, on_jax)
        on_jax.patch()
    elif name == "keras.src.backend.torch.trainer":
        from . import on_torch

        models.patch_model(module, on_torch)
    elif backend == "torch" and name == "keras.src.optimizers.base_optimizer":
        from . import on_torch

        on_torch.patch_optimizer(module)
    activity_hooks.patch(module)


def _patch_on_tensorflow(name, module):
    from tfprobe_agent.frameworks.tensorflow import optimizers, session

    from . import on_tensorflow

    if name == "tensorflow.python.keras.engine.training_v2_utils":
        models.patch_execution_functions(module, on_tensorflow)
    elif name == "keras.src.backend.tensorflow.trainer" or name.endswith((".engine.training", ".engine.training_v1")):
        models.patch_model(module, on_tensorflow)
    elif name == "keras.src.optimizers.base_optimizer" or name.endswith((".optimizer_v2", ".optimizer")):
        optimizers.patch(module)
    elif name.endswith(".backend"):
        session.patch_keras_backend(module)
    activity_hooks.patch(module)


FRAMEWORK = Keras()
