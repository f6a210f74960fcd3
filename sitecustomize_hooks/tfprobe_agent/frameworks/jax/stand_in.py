"""An object that stands for a function of `jax.jit` or `pmap` and passes for it: in its type's name, copies, pickles.

A compiled function cannot be patched: its calls do not pass its type before Python 3.12. What differs from version to
version is its type: one of jaxlib's own for jit, and for pmap a plain function from JAX 0.10 on.
"""

import sys
import types

from tfprobe_agent.interruptions import leave_traceback

# By the type of function stood for: the class of what stands for it.
_CLASSES = {}


def stand_in(function, make_call):
    """Return what stands for a function; `make_call(function, stand_in)` returns what runs at each call of it."""
    kind = type(function)
    cls = _CLASSES.get(kind)
    if cls is None:
        cls = _CLASSES[kind] = _class_for(kind)
    return cls(function, make_call)


def is_stand_in(function):
    """Return whether a function stands for another; `isinstance` would ask an object of the job for its class."""
    return issubclass(type(function), CompiledFunction)


def stood_for(function):
    """Return the function that this one stands for; itself, if for none."""
    return function._tfprobe_function if is_stand_in(function) else function


def _inner(name):
    """Return a property that is the function's own."""

    def delete(self):
        delattr(self._tfprobe_function, name)

    return property(
        lambda self: getattr(self._tfprobe_function, name),
        lambda self, value: setattr(self._tfprobe_function, name, value),
        delete,
    )


class _PassingFor(type):
    """The type of a class that equals the type it stands for, and has its instances.

    Programs look compiled functions up by `type(jax.jit(f))`.
    """

    def __eq__(cls, other):
        return other is cls or other is cls._tfprobe_kind

    def __hash__(cls):
        return hash(cls._tfprobe_kind)

    def __instancecheck__(cls, instance):
        return isinstance(instance, cls._tfprobe_kind)

    def __subclasscheck__(cls, other):
        return other is cls or issubclass(other, cls._tfprobe_kind)


def _class_for(kind):
    """Return a class that is printed as this type: Haiku looks there for functions that are compiled already."""
    own = {
        "__slots__": (),
        "__doc__": _inner("__doc__"),
        "__qualname__": kind.__qualname__,
        "_tfprobe_kind": kind,
    }
    # The name of a built-in type has no module. That of its instances is the function's own, in no dictionary.
    module = getattr(kind, "__module__", "builtins")
    own["__module__"] = _inner("__module__") if module == "builtins" else module
    return _PassingFor(kind.__name__, (CompiledFunction,), own)


class CompiledFunction:
    """Stands for a function of jax.jit: a call runs what `make_call` returned, all else is the function's own.

    Its dictionary is that of the function. A call finds what to run in a slot, without a frame of this class.
    """

    __slots__ = ("__call__", "__dict__", "__weakref__", "_make_call", "_tfprobe_function")

    def __init__(self, function, make_call):
        self.__dict__ = function.__dict__
        self._tfprobe_function = function
        self._make_call = make_call
        self.__call__ = make_call(function, self)

    def __get__(self, instance, owner=None):
        return self if instance is None else types.MethodType(self, instance)

    def __getattr__(self, name):
        try:
            return getattr(self._tfprobe_function, name)
        except BaseException as error:
            leave_traceback(error)
            raise

    def __dir__(self):
        return dir(self._tfprobe_function)

    def __repr__(self):
        return repr(self._tfprobe_function)

    def __reduce_ex__(self, protocol):
        # A pickle is that of the function, also its bytes: whoever loads it need not be recorded.
        function = self._tfprobe_function
        if isinstance(function, types.FunctionType):
            return function.__qualname__
        return function.__reduce_ex__(protocol)

    def __copy__(self):
        return self._copied(sys.modules["copy"].copy)

    def __deepcopy__(self, memo):
        return self._copied(lambda function: sys.modules["copy"].deepcopy(function, memo))

    def _copied(self, copy):
        function = self._tfprobe_function
        copied = copy(function)
        return self if copied is function else stand_in(copied, self._make_call)

    __class__ = property(lambda self: type(self._tfprobe_function))
