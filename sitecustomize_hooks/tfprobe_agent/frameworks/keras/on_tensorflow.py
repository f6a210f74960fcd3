"""Keras on TensorFlow: what its train functions are made of, and who can trace them."""

from tfprobe_agent.frameworks.tensorflow import functions, profiler

CLASSES = ("TensorFlowTrainer", "Model")
QUEUES = False

executes = functions.executing_eagerly
trace_on_batch = profiler.trace
trace_function = profiler.trace_function


def adopt(function, kind, name):
    """Mark a tf.function as counted; return False if the function needs a step wrapper of its own."""
    if not hasattr(function, "get_concrete_function"):
        return False
    functions.mark_keras(function, kind, name)
    return True


def begin_loop(loop, _function):
    """Prepare a loop that is about to run for another model."""
    functions.collect_first_step(loop)


def can_count(model):
    """Return whether the optimizer's count of steps can be read here and now."""
    # a coordinator's variables live on parameter servers
    return functions.executing_eagerly() and not getattr(model, "_cluster_coordinator", None)


def count_of(iterations):
    """Return the value of the optimizer's count of steps."""
    return int(iterations.numpy())
