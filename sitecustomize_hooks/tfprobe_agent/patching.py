"""Replace a method by a plain function so that nothing else about it changes: name, signature, pickling, type.

`around(original)` returns the function to put in its place, which takes what the original takes.
"""

import functools
import inspect

from .interruptions import let_through

_PATCHED = "_tfprobe_wrapped"


def patch_method(cls, name, around):
    """Wrap method `name` where `cls` itself defines it; do nothing where it does not, or where we did already."""
    method = cls.__dict__.get(name)
    if method is None or isinstance(method, (staticmethod, classmethod, property)) or is_patched(method):
        return
    replacement = functools.update_wrapper(around(method), method)
    try:
        # getfullargspec does not follow __wrapped__, but it believes this.
        replacement.__signature__ = inspect.signature(method)
    except (ValueError, TypeError):
        let_through()  # a method without an inspectable signature stays without one
    setattr(replacement, _PATCHED, True)
    setattr(cls, name, replacement)


def patch_call(owner, name, around):
    """Put what `around` makes of it in the place of a class's method or a module's function.

    Its signature is found behind `__wrapped__` alone: Keras wraps the bound `build` of each model once more, and would
    copy a `__signature__` with the `self` in it.
    """
    there = vars(owner).get(name)
    is_static = isinstance(there, staticmethod)
    original = there.__func__ if is_static else there
    if inspect.isfunction(original) and not is_patched(original):
        replacement = functools.update_wrapper(around(original), original)
        setattr(replacement, _PATCHED, True)
        setattr(owner, name, staticmethod(replacement) if is_static else replacement)


def is_patched(function):
    """Tell whether a method or function is one of ours."""
    return inspect.isfunction(function) and getattr(function, _PATCHED, False) is True
