"""Replace a method by a wrapped one so that nothing else about it changes: name, signature, pickling, identity of self.

Methods that run steps get a door, which is a plain function. All others are wrapped with the job's own wrapt where
TensorFlow has imported it, otherwise with a plain function; both call `wrapper(wrapped, instance, args, kwargs)`.
"""

import functools
import inspect
import sys

_PATCHED = "_tfprobe_wrapped"


def patch_method(cls, name, wrapper):
    """Wrap method `name` where `cls` itself defines it; do nothing where it does not, or where we did already."""
    method = _own_method(cls, name)
    if method is not None:
        setattr(cls, name, _wrap_method(method, wrapper))


def patch_door(cls, name, around):
    """Put a door (see door.py) in the place of a method that runs steps: a plain function, because it is the cheapest.

    A wrapt wrapper costs 0.35 us more at every step; a plain function also pickles by itself.
    """
    method = _own_method(cls, name)
    if method is not None:
        setattr(cls, name, _like(method, around(method)))


def patch_call(owner, name, around):
    """Put what `around` makes of it in the place of a class's method or a module's function.

    Its signature is found behind `__wrapped__` alone: Keras wraps the bound `build` of each model once more, and would
    copy a `__signature__` with the `self` in it.
    """
    original = vars(owner).get(name)
    if inspect.isfunction(original) and not is_patched(original):
        replacement = functools.update_wrapper(around(original), original)
        setattr(replacement, _PATCHED, True)
        setattr(owner, name, replacement)


def _own_method(cls, name):
    method = cls.__dict__.get(name)
    if method is None or isinstance(method, (staticmethod, classmethod, property)) or is_patched(method):
        return None
    return method


def patch_function(module, name, wrapper):
    """Wrap a module's function; `wrapper` gets None as instance."""
    function = module.__dict__.get(name)
    if function is None or is_patched(function):
        return

    @functools.wraps(function)
    def wrapped_function(*args, **kwargs):
        return wrapper(function, None, args, kwargs)

    setattr(wrapped_function, _PATCHED, True)
    setattr(module, name, wrapped_function)


def is_patched(function):
    """Tell whether a method or function is one of ours."""
    return getattr(type(function), _PATCHED, False) is True or (
        inspect.isfunction(function) and getattr(function, _PATCHED, False) is True
    )


def _wrap_method(method, wrapper):
    wrapt = sys.modules.get("wrapt")
    if wrapt is not None and hasattr(wrapt, "FunctionWrapper") and hasattr(wrapt, "BoundFunctionWrapper"):
        return _wrapt_class(wrapt)(method, wrapper)

    def plain(self, *args, **kwargs):
        return wrapper(method.__get__(self), self, args, kwargs)

    return _like(method, plain)


def _like(method, replacement):
    """Give a plain function the name, the documentation and the signature of what it stands for."""
    functools.update_wrapper(replacement, method)
    try:
        # getfullargspec does not follow __wrapped__, but it believes this.
        replacement.__signature__ = inspect.signature(method)
    except (ValueError, TypeError):
        pass  # a method without an inspectable signature stays without one
    setattr(replacement, _PATCHED, True)
    return replacement


_classes = {}


def _wrapt_class(wrapt):
    """Return our FunctionWrapper over this wrapt; made once.

    wrapt's proxies refuse to be pickled and deep-copied, which a bound method does not: ours do both as
    getattr(instance, name).
    """
    if wrapt in _classes:
        return _classes[wrapt]

    class BoundMethod(wrapt.BoundFunctionWrapper):
        def __reduce_ex__(self, protocol):
            return _by_name(self)

        def __reduce__(self):
            return _by_name(self)

        def __copy__(self):
            return self

        def __deepcopy__(self, memo):
            owner, name = _by_name(self)[1]
            return getattr(sys.modules["copy"].deepcopy(owner, memo), name)

    class Method(wrapt.FunctionWrapper):
        __bound_function_wrapper__ = BoundMethod

    setattr(Method, _PATCHED, True)
    setattr(BoundMethod, _PATCHED, True)
    _classes[wrapt] = Method
    return Method


def _by_name(bound):
    """Return pickle's recipe for a bound method: getattr(owner, name); the owner of an unbound one is its class."""
    instance = bound._self_instance
    if instance is None:
        # Reached through the class: wrapt keeps no owner before 1.15, so find it by the qualified name.
        owner = sys.modules[bound.__module__]
        for part in bound.__qualname__.split(".")[:-1]:
            owner = getattr(owner, part)
        return getattr, (owner, bound.__name__)
    return getattr, (instance, bound.__name__)
