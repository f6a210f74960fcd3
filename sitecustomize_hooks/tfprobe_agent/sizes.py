"""How many bytes a step was fed and gave back. Looks at shapes and types: converts, copies and waits for nothing."""

import sys

from .guard import never_raise_noting

# A step with more leaves than this is not looked through.
MAX_LEAVES = 100
_CONTEXT = "tensorflow.python.eager.context"


@never_raise_noting
def fed_bytes(feeds):
    """Return the bytes of the arrays among what a Session step was fed; None if something else was, or too much.

    Numbers are some bytes each, and count as none.
    """
    numpy = sys.modules.get("numpy")
    feeds = list(feeds)
    if numpy is None or len(feeds) > MAX_LEAVES:
        return None
    total = 0
    for value in feeds:
        if isinstance(value, numpy.ndarray) and value.dtype != object:
            total += value.nbytes
        elif not isinstance(value, (bool, int, float, complex, numpy.number, numpy.bool_)):
            return None
    return total


@never_raise_noting
def result_bytes(result):
    """Return the bytes of the tensors and arrays that a step returned; None of what is nested deeper, or too much."""
    leaves = _leaves(result)
    if leaves is None or _is_asynchronous():
        return None
    sizes = [_bytes_of(leaf) for leaf in leaves]
    return None if None in sizes else sum(sizes)


def _leaves(result):
    """Return the parts of a flat structure, or None."""
    if isinstance(result, dict):
        result = list(result.values())
    if not isinstance(result, (list, tuple)):
        return None if result is None else [result]
    return None if len(result) > MAX_LEAVES else result


def _is_asynchronous():
    """Tell whether the shape of a tensor may have to be waited for."""
    context = getattr(sys.modules.get(_CONTEXT), "_context", None)
    return bool(getattr(context, "_default_is_async", False))


def _bytes_of(leaf):
    numpy = sys.modules.get("numpy")
    if leaf is None or isinstance(leaf, (bool, int, float)):
        return 0
    if numpy is not None and isinstance(leaf, (numpy.ndarray, numpy.generic)):
        return None if leaf.dtype == object else leaf.nbytes
    if type(leaf).__name__ != "EagerTensor":
        return None
    element = leaf.dtype.as_numpy_dtype
    if element is object:  # strings: each has a length of its own
        return None
    size = numpy.dtype(element).itemsize
    for length in leaf._shape_tuple():
        size *= length
    return size
