"""Keras, of TensorFlow and by itself: its train, test and predict functions, and what its models do besides steps."""

import sys

from tfprobe_agent.core.framework import Framework
from tfprobe_agent.frameworks import activity_hooks
from tfprobe_agent.frameworks.tensorflow import optimizers, session

from . import models

# Keras runs its steps with TensorFlow where this module is loaded.
_TENSORFLOW = "tensorflow.python.client.session"
_BY_MODULE = {
    "tensorflow.python.keras.engine.training_v2_utils": models.patch_execution_functions,
    "keras.src.backend.tensorflow.trainer": models.patch_model,
    "keras.src.optimizers.base_optimizer": optimizers.patch,
}
_BY_ENDING = (
    (".engine.training", models.patch_model),
    (".engine.training_v1", models.patch_model),
    (".backend", session.patch_keras_backend),
    (".optimizer_v2", optimizers.patch),
    (".optimizer", optimizers.patch),
)


class Keras(Framework):
    """Keras as the recording sees it."""

    name = "keras"

    def patch(self, name, module):
        if _TENSORFLOW not in sys.modules and not name.startswith("tensorflow."):
            return
        patch = _BY_MODULE.get(name) or next((patch for ending, patch in _BY_ENDING if name.endswith(ending)), None)
        if patch is not None:
            patch(module)
        activity_hooks.patch(module)

    def version(self):
        versions = (getattr(sys.modules.get(name), "__version__", None) for name in ("keras", "tf_keras"))
        return next((version for version in versions if isinstance(version, str)), None)


FRAMEWORK = Keras()
