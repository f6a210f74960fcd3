"""Print which names of advice this TensorFlow has, as JSON."""

import inspect
import json

import tensorflow as tf


def takes(function, name):
    return name in inspect.signature(function).parameters


def has(path):
    value = tf
    for part in path.split(".")[1:]:
        if not hasattr(value, part):
            return False
        value = getattr(value, part)
    return True


RENAMED = (
    ("tf.config.run_functions_eagerly", "tf.config.experimental_run_functions_eagerly"),
    ("tf.data.AUTOTUNE", "tf.data.experimental.AUTOTUNE"),
)
ARGUMENTS = (
    ("jit_compile=True", "experimental_compile=True"),
    ("reduce_retracing=True", "experimental_relax_shapes=True"),
)
names = {name: has(name) for pair in RENAMED for name in pair}
for pair in ARGUMENTS:
    for name in pair:
        names[name] = takes(tf.function, name.partition("=")[0])
names["steps_per_execution"] = takes(tf.keras.Model.compile, "steps_per_execution")
names["batch"] = takes(tf.data.Dataset.batch, "num_parallel_calls")
print(json.dumps(names))
