"""Pass numbers that change from call to call to the job's tf.functions as tensors: each new number is traced anew."""

import sys

from tfprobe_agent.interruptions import let_through
from tfprobe_agent.trial.fixes import calls

from . import FUNCTIONS

MODULES = FUNCTIONS
_CONSTANT = "tensorflow.python.framework.constant_op"
# A number that has had this many values varies.
VARIES = 3


def patch(name, module, value, note):
    """Replace the call of a tf.function."""
    cls = vars(module).get("Function")
    if isinstance(cls, type) and cls.__module__ == name:
        calls.replace(cls, "__call__", lambda original: converting(original, note.applied, note.skipped))


def converting(original, applied, skipped):
    """Return what calls `original(function, ...)` with tensors in place of numbers that vary, where that works."""
    known = {}  # what is known of a function, by its id

    def call(self, *args, **kwargs):
        given = dict(enumerate(args))
        given.update(kwargs)
        numbers = [key for key, value in given.items() if type(value) in (int, float)]
        function = known.get(id(self))
        if function is None:
            function = known[id(self)] = _Function(self)
        if not numbers or not function.is_of_job or function.has_failed:
            return original(self, *args, **kwargs)
        varying = [key for key in numbers if function.varies(key, given[key])]
        if not varying:
            return original(self, *args, **kwargs)
        tensors, named = _converted(varying, args, kwargs)
        if function.is_known_to_work:
            applied()
            return original(self, *tensors, **named)
        try:
            result = original(self, *tensors, **named)
        except Exception as error:
            let_through()
            function.has_failed = True
            skipped("%s cannot take a tensor: %s" % (function.name, type(error).__name__))
            return original(self, *args, **kwargs)
        function.is_known_to_work = True
        applied()
        return result

    return call


class _Function:
    """A tf.function, and the values that its arguments had. It is kept alive, so that its id is met no more."""

    def __init__(self, function):
        self.function = function
        python_function = getattr(function, "python_function", None)
        self.is_of_job = python_function is not None and calls.is_of_job(python_function)
        self.name = getattr(python_function, "__name__", "the function")
        self.values = {}
        self.has_failed = self.is_known_to_work = False

    def varies(self, key, value):
        """Return whether an argument has had several values, this one included."""
        values = self.values.setdefault(key, set())
        if len(values) < VARIES:
            values.add(value)
        return len(values) >= VARIES


def _converted(keys, args, kwargs):
    """Return the arguments with these numbers as constants."""
    constant = sys.modules[_CONSTANT].constant
    args, kwargs = list(args), dict(kwargs)
    for key in keys:
        arguments = kwargs if isinstance(key, str) else args
        arguments[key] = constant(arguments[key])
    return args, kwargs
