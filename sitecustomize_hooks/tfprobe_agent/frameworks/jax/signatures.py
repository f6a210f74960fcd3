"""What a compiled function is called with, as JAX sees it, and what of that differs between two compilations.

Only words are kept, such as shapes, types and short values: never an array, and no object of the job.
"""

import inspect
import sys

from tfprobe_agent import redact
from tfprobe_agent.interruptions import let_through

from . import settings

# Signatures kept for each function, to compare the next one with.
KEPT = 8
# Functions of more arrays than this are not compared: the words would take megabytes.
_MOST_LEAVES = 5000
# Differences that are named.
MOST_CHANGES = 10
_LONGEST = 80
_LONGEST_TUPLE = 16
_WITHOUT_X64 = {"float64": "float32", "int64": "int32", "uint64": "uint32", "complex128": "complex64"}
_SCALARS = {bool: "bool", int: "int64", float: "float64", complex: "complex128"}
_STATIC = ("static_argnums", "static_argnames", "static_broadcasted_argnums")
_SIMPLE = (bool, int, float, complex, str, bytes, type(None))
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class Signatures:
    """What one function was compiled for, in words, and the options of jit that say which arguments are static."""

    __slots__ = ("kept", "name", "options")

    def __init__(self, name, options):
        self.name = name
        self.options = {option: options[option] for option in _STATIC if option in options}
        self.kept = []


class Leaf:
    """One array or static value of a call, in words."""

    __slots__ = ("key", "sharding", "text")

    def __init__(self, key, text, sharding=""):
        self.key = key  # a tuple of (what, value) pairs: by these JAX tells calls apart
        self.text = text
        self.sharding = sharding


def is_traced(args, kwargs):
    """Return whether a call is part of something that JAX traces: its arguments are no arrays yet."""
    tracer = sys.modules["jax._src.core"].Tracer
    return any([issubclass(type(leaf), tracer) for leaf in sys.modules["jax"].tree_util.tree_leaves((args, kwargs))])


def describe(function, options, args, kwargs):
    """Return the leaves of a call by their path, None if there are too many. `options` are those of jax.jit."""
    parameters = _parameters(function)
    static_numbers, static_names = _static(options, parameters)
    leaves = {}
    for number, value in enumerate(args):
        is_named = number < len(parameters) and parameters[number].kind in _POSITIONAL
        name = parameters[number].name if is_named else "argument %d" % number
        _add(leaves, name, value, number in static_numbers)
    for name, value in kwargs.items():
        _add(leaves, name, value, name in static_names)
    return leaves if len(leaves) <= _MOST_LEAVES else None


def changes(known, leaves):
    """Return what differs from the most similar of the known signatures, as dictionaries with words."""
    differences = [_differences(earlier, leaves) for earlier in known]
    return min(differences, key=len)


def _differences(before, after):
    found, by_sharding = [], []
    for path in list(after) + [path for path in before if path not in after]:
        old, new = before.get(path), after.get(path)
        if old is None or new is None:
            found.append(_change(path, "structure", old.text if old else "", new.text if new else ""))
        elif old.key != new.key:
            what = [word for (word, value), (_, other) in zip(old.key, new.key) if value != other]
            if [word for word, _ in old.key] != [word for word, _ in new.key]:
                what = ["type"]
            found.append(_change(path, ", ".join(what), old.text, new.text))
        elif old.sharding != new.sharding:
            by_sharding.append(_change(path, "sharding", old.sharding or "none", new.sharding or "none"))
    added = tuple(change["argument"] for change in found if not (change["before"] and change["after"]))
    found = [change for change in found if not _is_explained(change, added)]
    # Arrays are moved for many reasons; what only moved explains a compilation if nothing else does.
    return found or by_sharding


def _is_explained(change, added):
    """Return whether another structure only means that arrays were added or are gone, which are named."""
    is_whole = change["what"] == "structure" and change["argument"] not in added
    return is_whole and any([path.startswith(change["argument"]) for path in added])


def _change(path, what, before, after):
    return {"argument": path, "what": what, "before": before, "after": after}


def _add(leaves, name, value, is_static):
    if is_static:
        leaves[name] = _of_static(value)
        return
    tree = sys.modules["jax"].tree_util
    with_paths, structure = tree.tree_flatten_with_path(value)
    if len(with_paths) != 1 or with_paths[0][0]:
        # what is no leaf: the keys of a dictionary, fields of a dataclass that are no arrays
        leaves[name] = Leaf((("structure", _hash(structure)),), str(structure)[:_LONGEST])
    for path, leaf in with_paths[: _MOST_LEAVES + 1]:
        leaves[name + tree.keystr(path)] = _of_array(leaf)


def _of_array(value):
    kind = type(value)
    if kind in _SCALARS:
        shape, dtype, is_weak = (), _SCALARS[kind], kind is not bool
    elif hasattr(value, "shape") and hasattr(value, "dtype"):
        shape, dtype, is_weak = tuple(value.shape), str(value.dtype), bool(getattr(value, "weak_type", False))
    else:
        return Leaf((("type", kind.__name__),), kind.__name__)
    if not settings.value("jax_enable_x64"):
        dtype = _WITHOUT_X64.get(dtype, dtype)
    text = "%s[%s]%s" % (dtype, ",".join(map(str, shape)), ", weakly typed" if is_weak else "")
    return Leaf((("shape", shape), ("dtype", dtype), ("weak type", is_weak)), text, _sharding(value))


def _sharding(value):
    """Return where an array must stay, "" for one that may be moved."""
    sharding = getattr(value, "sharding", None)
    is_committed = getattr(value, "committed", getattr(value, "_committed", False))
    return str(sharding)[: 2 * _LONGEST] if sharding is not None and is_committed else ""


def _of_static(value):
    if _is_simple(value) or (
        type(value) is tuple and len(value) <= _LONGEST_TUPLE and all([_is_simple(item) for item in value])
    ):
        text = repr(value)
        return Leaf((("static value", hash(text)),), redact.text(text[:_LONGEST]))
    name = getattr(value, "__qualname__", None)
    text = name[:_LONGEST] if isinstance(name, str) else "a %s" % type(value).__name__
    return Leaf((("static value", _hash(value)),), text)


def _is_simple(value):
    return type(value) in _SIMPLE


def _hash(value):
    """Return the hash of a static value or a structure, by which JAX tells calls apart, too."""
    try:
        return hash(value)
    except Exception:
        let_through()
        return 0  # JAX refuses what has none


def _parameters(function):
    """Return the parameters of the function that was compiled."""
    try:
        return list(inspect.signature(getattr(function, "__wrapped__", function)).parameters.values())
    except (TypeError, ValueError):
        let_through()
        return []


def _static(options, parameters):
    """Return the numbers and the names of static arguments; JAX infers the one from the other."""
    names = [parameter.name for parameter in parameters]
    numbers = set(_several(options.get("static_argnums", options.get("static_broadcasted_argnums"))))
    numbers = {number + len(names) if number < 0 else number for number in numbers}
    static = set(_several(options.get("static_argnames")))
    numbers.update(names.index(name) for name in static if name in names)
    static.update(names[number] for number in numbers if number < len(names))
    return numbers, static


def _several(value):
    """Return the values of an option that may be one, several or none."""
    if value is None:
        return ()
    return (value,) if isinstance(value, (int, str)) else tuple(value)
