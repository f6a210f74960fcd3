"""Slow down Python code that makes the input: of DataLoader, in functions of tf.data, and before a Session runs.

What a program waits for is not slowed down: while it waits longer, a pipeline would make more.
"""

import sys

from tfprobe_agent.trial.delays import delay_of, thread_cpu_ns
from tfprobe_agent.trial.fixes.calls import replace
from tfprobe_agent.unpatched import UNPATCHED

_FETCH = "torch.utils.data._utils.fetch"
_PY_FUNC = "tensorflow.python.ops.script_ops"
_SESSION = "tensorflow.python.client.session"
MODULES = ("torch", _PY_FUNC, _SESSION, "jax")
_FUNCTIONS_OF_DATASETS = ("data/ops/structured_function.py", "data/ops/dataset_ops.py")


def patch(name, module, value, note):
    """Replace what calls such code."""
    delay = delay_of("input", value, note)
    if name == "torch":
        fetch = sys.modules[_FETCH]
        for cls in (fetch._MapDatasetFetcher, fetch._IterableDatasetFetcher):
            replace(cls, "fetch", delay.around)
    elif name == _PY_FUNC:
        replace(module, "_internal_py_func", lambda original: _making(original, delay))
    elif name == _SESSION:
        began = UNPATCHED.local()
        replace(module.BaseSession, "_run", lambda original: _noting_begin(original, began))
        replace(module.BaseSession, "_do_run", lambda original: _after_feeding(original, began, delay))
    else:
        note.skipped("JAX programs make their input between steps: try --delay between")


def _making(original, delay):
    """Slow down functions that become an op of a function of tf.data, generators among them."""

    def make(func, *args, **kwargs):
        if callable(func) and _is_for_dataset():
            func = delay.around(func)
        return original(func, *args, **kwargs)

    return make


def _is_for_dataset():
    frame = sys._getframe(2)
    while frame is not None:
        if frame.f_code.co_filename.endswith(_FUNCTIONS_OF_DATASETS):
            return True
        frame = frame.f_back
    return False


def _noting_begin(original, began):
    """Note when a run of a Session begins that is fed."""

    def run(self, handle, fetches, feed_dict, *args, **kwargs):
        began.times = (UNPATCHED.monotonic_ns(), thread_cpu_ns()) if feed_dict else None
        return original(self, handle, fetches, feed_dict, *args, **kwargs)

    return run


def _after_feeding(original, began, delay):
    """Slow down what came before TensorFlow gets the feeds: they were made into arrays."""

    def run(*args, **kwargs):
        times, began.times = getattr(began, "times", None), None
        if times is not None:
            delay.lasted(UNPATCHED.monotonic_ns() - times[0], thread_cpu_ns() - times[1])
        return original(*args, **kwargs)

    return run
