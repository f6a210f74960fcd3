"""Replace a method by a plain function so that nothing else about it changes: name, signature, pickling, type.

`around(original)` returns the replacement, which takes the same arguments.
"""

import functools
import inspect

from .interruptions import let_through

_PATCHED = "_tfprobe_wrapped"


def patch_method(cls, name, around):
    """Wrap method `name` if `cls` itself defines it and it is not wrapped yet; otherwise do nothing."""
    method = cls.__dict__.get(name)
    if method is None or isinstance(method, (staticmethod, classmethod, property)) or is_patched(method):
        return
    replacement = functools.update_wrapper(around(method), method)
    try:
        # getfullargspec does not follow __wrapped__, but it reads this.
        replacement.__signature__ = inspect.signature(method)
    except (ValueError, TypeError):
        let_through()  # a method without an inspectable signature stays without one
    setattr(replacement, _PATCHED, True)
    setattr(cls, name, replacement)


def patch_call(owner, name, around):
    """Replace a method of a class or a function of a module by what `around` returns for it.

    Its signature is reachable through `__wrapped__` only: Keras wraps the bound `build` of each model once more, and
    would copy a `__signature__` that includes `self`.
    """
    there = vars(owner).get(name)
    is_static = isinstance(there, staticmethod)
    original = there.__func__ if is_static else there
    if inspect.isfunction(original) and not is_patched(original):
        replacement = functools.update_wrapper(around(original), original)
        setattr(replacement, _PATCHED, True)
        setattr(owner, name, staticmethod(replacement) if is_static else replacement)


def is_patched(function):
    """Return whether a method or function is a replacement."""
    return inspect.isfunction(function) and getattr(function, _PATCHED, False) is True
