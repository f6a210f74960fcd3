"""Fixes of programs that use TensorFlow itself."""

# The modules that define `tf.function` and the class that it makes.
FUNCTIONS = (
    "tensorflow.python.eager.def_function",
    "tensorflow.python.eager.polymorphic_function.polymorphic_function",
)
