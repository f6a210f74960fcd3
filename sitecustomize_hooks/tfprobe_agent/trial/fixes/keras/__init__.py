"""Fixes of programs that train with Keras."""

from tfprobe_agent.trial.fixes import calls

# The modules in which the releases of Keras define the class with `compile`.
COMPILING = (
    "tensorflow.python.keras.engine.training",
    "tensorflow.python.keras.engine.training_v1",
    "keras.engine.training",
    "keras.engine.training_v1",
    "keras.src.engine.training",
    "keras.src.engine.training_v1",
    "tf_keras.engine.training",
    "tf_keras.src.engine.training",
    "keras.src.trainers.trainer",
)


def replace_methods(module, methods, around):
    """Replace these methods of the classes of models that this module defines."""
    for name in ("Model", "Trainer", "TensorFlowTrainer", "JAXTrainer", "TorchTrainer"):
        cls = module.__dict__.get(name)
        if isinstance(cls, type) and cls.__module__ == module.__name__:
            for method in methods:
                calls.replace(cls, method, around)
