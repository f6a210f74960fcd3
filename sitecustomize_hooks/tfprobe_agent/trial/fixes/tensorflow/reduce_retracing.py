"""Trace the job's tf.functions for shapes of any size once they have been called with two: `reduce_retracing=True`."""

from tfprobe_agent.trial.fixes import calls

from . import FUNCTIONS

MODULES = FUNCTIONS
# The argument, and what it was called until TensorFlow 2.8.
_NAMES = ("reduce_retracing", "experimental_relax_shapes")


def patch(name, module, value, note):
    """Give `tf.function` the argument where the job gives neither that nor a signature."""
    if getattr(vars(module).get("function"), "__module__", None) == name:
        calls.replace(module, "function", lambda original: _function(original, note))


def _function(original, note):
    arguments = calls.Arguments(original)
    names = [name for name in _NAMES if name in arguments.names]

    def function(*args, **kwargs):
        if calls.is_called_by_job():
            if any([arguments.get(name, args, kwargs) for name in names]):
                note.skipped("the program reduces retracing already")
            elif arguments.get("input_signature", args, kwargs) is not None:
                note.skipped("has an input_signature")
            elif names:
                args, kwargs = arguments.put(names[0], True, args, kwargs)
                note.applied()
        return original(*args, **kwargs)

    return function
