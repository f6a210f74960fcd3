"""The tf.function doors: outermost calls of `Function` and `ConcreteFunction` that execute eagerly."""

import re
import sys
import weakref

from . import door, optimized, patching, profiler
from .recorder import current, find_named
from .steps_layout import RETRACES
from .threads import entry_of, remember

_CONTEXT = "tensorflow.python.eager.context"
_TRACED_NAME = re.compile(r"^__(?:inference|forward|backward)_(.*)_\d+$")

# The functions that Keras trains, tests and predicts with: id -> (weak reference, kind, model name).
KERAS_FUNCTIONS = {}


class _Eager:
    """TensorFlow's module of the eager context, found once: every step asks it."""

    module = None


def patch(module):
    """Patch the class `Function` or `ConcreteFunction` that this module defines."""
    for name in ("Function", "ConcreteFunction"):
        cls = module.__dict__.get(name)
        if cls is None or cls.__module__ != module.__name__:
            continue
        if name == "Function" and not hasattr(cls, "get_concrete_function"):
            continue
        if module.__name__ == "tensorflow.python.eager.function" and name == "Function":
            continue  # the tracing machinery under def_function.Function, not a door
        # A parameter server's coordinator calls concrete functions below __call__, to be able to cancel them.
        method = "_call_impl" if name == "ConcreteFunction" and "_call_impl" in cls.__dict__ else "__call__"
        patching.patch_method(cls, method, door.make(find, profiler.trace, applies=executing_eagerly))


def mark_keras(function, kind, model_name):
    """Note that calls of this tf.function are steps of `kind`."""
    key = id(function)
    known = KERAS_FUNCTIONS.get(key)
    if known is not None and known[0]() is function and known[1:] == (kind, model_name):
        return
    KERAS_FUNCTIONS[key] = (entry_of(function, KERAS_FUNCTIONS, key), kind, model_name)


def executing_eagerly():
    """Tell whether a call runs now rather than adds to a graph; without creating TensorFlow's context."""
    module = _Eager.module
    if module is None:
        module = _Eager.module = sys.modules[_CONTEXT]
    context = module._context
    return module.executing_eagerly() if context is None else context._thread_local_data.is_eager


def find(mine, args, kwargs):
    """Return the Work of a call of this function."""
    if not args or not executing_eagerly():
        return None
    instance = args[0]
    work = mine.known.get(id(instance))
    if work is not None:
        return work
    kind, name = "function", _name_of(instance)
    marked = KERAS_FUNCTIONS.get(id(instance))
    if marked is not None and marked[0]() is instance:
        kind, name = marked[1:]
    work = find_named(kind, name)
    remember(id(instance), instance, work)
    if work is not None:
        work.owner = weakref.ref(instance)
        work.after_fold = note_retraces
        optimized.collect_first_step(work)
    return work


def _name_of(function):
    name = getattr(function, "_name", None) or getattr(getattr(function, "graph", None), "name", None)
    return plain_name(name if isinstance(name, str) else type(function).__name__)


def plain_name(name):
    """Return the name of a function without what TensorFlow adds when it traces it."""
    traced = _TRACED_NAME.match(name)
    return traced.group(1) if traced else name


def note_retraces(work):
    """Store how often this work's function was traced again after its first trace."""
    function = work.owner() if work.owner is not None else None
    counter = getattr(function, "experimental_get_tracing_count", None)
    retraces = counter() - 1 if counter is not None else 0
    if retraces > work.retraces:
        work.retraces = retraces
        work.words[work.base + RETRACES] = retraces
        current().journal.event("retrace", work=work.index, count=retraces)
