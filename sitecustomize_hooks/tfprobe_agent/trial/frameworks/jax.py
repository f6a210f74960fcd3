"""JAX in a trial: its random numbers have keys of the program's own, and its arrays have no owner that can be seen."""

import sys

MODULES = ()
# Arrays that differ by rounding may be in another order.
ORDERED = False


def patch(name, module, seed):
    """Seed nothing."""


def arrays():
    """Return all live arrays of floating point, as a set: in the order of their bytes, equal ones once.

    JAX keeps further objects for the same array, for example where it searches results for NaN.
    """
    jax = sys.modules.get("jax")
    if jax is None:
        return []
    numpy = sys.modules["numpy"]
    live = [numpy.asarray(array) for array in jax.live_arrays() if _is_readable(jax, array)]
    distinct = {(array.shape, str(array.dtype), array.tobytes()): array for array in live}
    ordered = [distinct[key] for key in sorted(distinct)]
    return [("array %d" % at, array) for at, array in enumerate(ordered)] or "JAX has no arrays of floating point"


def _is_readable(jax, array):
    is_floating = jax.numpy.issubdtype(array.dtype, jax.numpy.floating)
    return is_floating and not array.is_deleted() and array.is_fully_addressable
