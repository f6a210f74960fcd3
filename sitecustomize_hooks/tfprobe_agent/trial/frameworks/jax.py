"""JAX in a trial: its random numbers have keys of the program's own, and its arrays have no owner that can be seen."""

import sys

MODULES = ()
# Arrays that differ by rounding may be in another order.
ORDERED = False


def patch(name, module, seed):
    """Seed nothing."""


def arrays():
    """Return all live arrays of floating point, as a multiset: in the order of their bytes."""
    jax = sys.modules.get("jax")
    if jax is None:
        return []
    numpy = sys.modules["numpy"]
    live = [numpy.asarray(array) for array in jax.live_arrays() if _is_readable(jax, array)]
    live.sort(key=lambda array: (array.shape, array.tobytes()))
    return [("array %d" % number, array) for number, array in enumerate(live)] or "JAX has no arrays of floating point"


def _is_readable(jax, array):
    is_floating = jax.numpy.issubdtype(array.dtype, jax.numpy.floating)
    return is_floating and not array.is_deleted() and array.is_fully_addressable
