"""TensorFlow and Keras on it, in a trial: seeds of its random ops, and the variables that are trained."""

import sys
import weakref

from tfprobe_agent import patching
from tfprobe_agent.core.threads import THREAD

_RANDOM_SEED = "tensorflow.python.framework.random_seed"
_VARIABLES = "tensorflow.python.ops.resource_variable_ops"
_SESSION = "tensorflow.python.client.session"
_OPS = "tensorflow.python.framework.ops"
MODULES = (_RANDOM_SEED, _VARIABLES, _SESSION)
ORDERED = True

# Weak references to what the job has made, in order of creation.
_CREATED = []
_SESSIONS = []


def patch(name, module, seed):
    """Patch a module that has just run."""
    if name == _RANDOM_SEED:
        module.get_seed = _around_get_seed(module.get_seed, seed)
    elif name == _VARIABLES:
        variable = getattr(module, "BaseResourceVariable", None) or module.ResourceVariable  # the latter in 1.14
        patching.patch_call(variable, "__init__", _noting(_CREATED))
    elif name == _SESSION:
        patching.patch_call(module.BaseSession, "__init__", _noting(_SESSIONS))


def _around_get_seed(original, seed):
    """Return a function that seeds ops without a seed of their own by their order among these.

    TensorFlow takes the number of all ops before it, which differs between arms where a fix adds an op.
    """
    drawn = []

    def get_seed(op_seed):
        first, second = original(op_seed)
        if op_seed is not None:
            return first, second
        drawn.append(None)
        return (seed if first is None else first), len(drawn)

    return get_seed


def _noting(references):
    """Return what replaces `__init__`, to keep weak references to the instances in order of creation."""

    def around(original):
        def initialize(self, *args, **kwargs):
            original(self, *args, **kwargs)
            references.append(weakref.ref(self))

        return initialize

    return around


def arrays():
    """Return the trained variables in order of creation, by name; why there are none, if so."""
    named = _of_session() or _eager()
    return named or "TensorFlow has no trainable variables that can be read"


def _eager():
    variables = [reference() for reference in _CREATED]
    return [
        (str(variable.name), variable.numpy())
        for variable in variables
        if variable is not None and variable.trainable and hasattr(variable, "_handle") and _is_eager(variable)
    ]


def _is_eager(variable):
    is_floating = getattr(variable.dtype, "is_floating", False)
    return is_floating and hasattr(variable.handle, "_id") and bool(variable.is_initialized())


def _of_session():
    """Return the variables of the newest Session of a graph that trains any."""
    ops = sys.modules.get(_OPS)
    for reference in reversed(_SESSIONS):
        session = reference()
        if session is None or ops is None or getattr(session, "_closed", True):
            continue
        variables = session.graph.get_collection(ops.GraphKeys.TRAINABLE_VARIABLES)
        variables = [variable for variable in variables if variable.dtype.base_dtype.is_floating]
        if variables:
            return list(zip([str(variable.name) for variable in variables], _values(session, variables)))
    return []


def _values(session, variables):
    current = THREAD.current
    depth, current.depth = current.depth, 1  # this run is no step of the job
    try:
        return session.run(variables)
    finally:
        current.depth = depth
