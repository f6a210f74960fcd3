"""Say whether there is a GPU whose kernels threads of its own can start: the launcher has set TF_GPU_THREAD_MODE."""

from tfprobe_agent.trial.fixes.devices import has_gpu

MODULES = ("tensorflow.python.eager.context",)


def patch(name, module, value, note):
    """Note that the variable is read where TensorFlow finds a GPU."""
    if has_gpu():
        note.applied()
    else:
        note.skipped("there is no GPU")
