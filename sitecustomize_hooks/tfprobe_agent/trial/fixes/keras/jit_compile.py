"""Compile the step with XLA: `jit_compile=True` of Keras' `compile` and of the job's own tf.functions."""

from tfprobe_agent.trial.fixes import calls
from tfprobe_agent.trial.fixes.tensorflow import FUNCTIONS

from . import COMPILING, replace_methods

MODULES = COMPILING + FUNCTIONS
# The argument of `tf.function`, and what it was called until TensorFlow 2.4.
_NAMES = ("jit_compile", "experimental_compile")


def patch(name, module, value, note):
    """Give the argument where the job gives none."""
    if name not in FUNCTIONS:
        replace_methods(module, ("compile",), lambda original: _compile(original, note))
    elif getattr(vars(module).get("function"), "__module__", None) == name:
        calls.replace(module, "function", lambda original: _function(original, note))


def _compile(original, note):
    arguments = calls.Arguments(original)

    def compile_(self, *args, **kwargs):
        everything = (self,) + args
        if "jit_compile" not in arguments.names:
            note.skipped("this Keras has no jit_compile")
        elif arguments.get("jit_compile", everything, kwargs) not in (None, "auto"):
            note.skipped("the program has set jit_compile")
        elif arguments.get("run_eagerly", everything, kwargs):
            note.skipped("compiled with run_eagerly")
        else:
            everything, kwargs = arguments.put("jit_compile", True, everything, kwargs)
            note.applied()
        return original(*everything, **kwargs)

    return compile_


def _function(original, note):
    arguments = calls.Arguments(original)
    names = [name for name in _NAMES if name in arguments.names]

    def function(*args, **kwargs):
        if calls.is_called_by_job():
            if not names:
                note.skipped("this TensorFlow has no jit_compile")
            elif any([arguments.get(name, args, kwargs) is not None for name in names]):
                note.skipped("the program has set jit_compile")
            else:
                args, kwargs = arguments.put(names[0], True, args, kwargs)
                note.applied()
        return original(*args, **kwargs)

    return function
