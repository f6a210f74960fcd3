"""Whether a program that is compiled once does what a function does at each call, as far as its code tells.

A compiled program keeps the globals and the variables around a function as they were while it was traced, and repeats
nothing that Python does beside the arrays. What is not seen here, is not excluded: methods of objects are not followed.
"""

import ast
import dis
import sys
import types

from tfprobe_agent.imports import is_library
from tfprobe_agent.interruptions import let_through
from tfprobe_agent.trial.fixes import step_functions

_STORES = frozenset(("STORE_ATTR", "STORE_GLOBAL", "DELETE_ATTR", "DELETE_GLOBAL"))
_LOADS = frozenset(("LOAD_GLOBAL", "LOAD_NAME"))
_CONTAINERS = dict, list, set, bytearray
_FIXED = (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType, type(None), str, bytes)
# Modules whose functions return something else at each call.
_RANDOM = frozenset(("random", "numpy.random", "secrets"))


def reason_against(function):
    """Return why a program compiled from a function would not do what that does; None if nothing is seen."""
    return _Search().reason(function)


def may_change(value):
    """Return whether an object may change without being another one."""
    if isinstance(value, tuple):
        return any(map(may_change, value))
    if isinstance(value, _CONTAINERS) or hasattr(value, "__next__"):
        return True
    if isinstance(value, _FIXED) or _is_array(value) or _is_of_jax(value):
        return False
    # An own hash that is no dataclass' may be of the identity, too.
    is_value = type(value).__hash__ is not object.__hash__
    return not (is_value and (is_library(_file_of(type(value))) or hasattr(type(value), "__dataclass_fields__")))


def _is_array(value):
    numpy = sys.modules["numpy"]
    return isinstance(value, (sys.modules["jax"].Array, numpy.ndarray))


def _is_of_jax(value):
    """Return whether an object is one of JAX's own, as compiled functions and custom gradients are."""
    return type(value).__module__.partition(".")[0] in ("jax", "jaxlib", "functools", "builtins")


def _may_be_bound_anew(value):
    """Return whether the function around may bind a variable to another one of these: batches, rates, states."""
    return _is_array(value) or isinstance(value, (bool, int, float, complex)) or not _is_of_jax(value)


def _file_of(cls):
    module = sys.modules.get(cls.__module__)
    # Those without a file are Python's own.
    return getattr(module, "__file__", None) or "/lib/python/"


class _Search:
    """Looks at a function and at those of the job that it names."""

    def __init__(self):
        self.seen = set()

    def reason(self, function):
        code = getattr(function, "__code__", None)
        if code is None or code in self.seen or is_library(code.co_filename):
            return None
        self.seen.add(code)
        try:
            return self._of_code(code, code, function.__globals__) or self._of_cells(function)
        except (OSError, SyntaxError, ValueError):
            let_through()
            return "the source of %s cannot be read" % function.__name__

    def _of_code(self, code, top, variables):
        instructions = list(dis.get_instructions(code))
        for at, instruction in enumerate(instructions):
            name = instruction.argval
            if instruction.opname in _STORES:
                return "%s changes attributes or globals" % top.co_name
            if instruction.opname == "STORE_DEREF" and name in top.co_freevars:
                return "%s changes %s of the function around it" % (top.co_name, name)
            if instruction.opname in _LOADS and name in variables:
                following = instructions[at + 1].argval if at + 1 < len(instructions) else None
                why = self._of_global(top, name, variables, following)
                if why is not None:
                    return why
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                why = self._of_code(constant, top, variables)
                if why is not None:
                    return why
        return None

    def _of_global(self, top, name, variables, attribute):
        value = variables[name]
        if isinstance(value, types.ModuleType):
            return self._of_module(top, value, attribute)
        if isinstance(value, types.FunctionType):
            return self.reason(value)
        if isinstance(value, _FIXED) and not isinstance(value, (str, bytes)):
            return None
        if may_change(value) or _is_reassigned(name, variables):
            return "%s uses %s, which may change" % (top.co_name, name)
        return None

    def _of_module(self, top, module, attribute):
        if module.__name__ in _RANDOM or "%s.%s" % (module.__name__, attribute) in _RANDOM:
            return "%s uses %s" % (top.co_name, module.__name__)
        is_of_job = not is_library(getattr(module, "__file__", None) or "/lib/python/")
        return self._of_global(top, attribute, vars(module), None) if is_of_job and attribute in vars(module) else None

    def _of_cells(self, function):
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
            try:
                value = cell.cell_contents
            except ValueError:
                let_through()
                continue  # not bound yet
            if isinstance(value, types.FunctionType):
                why = self.reason(value)
                if why is not None:
                    return why
            elif not isinstance(value, _FIXED) and (may_change(value) or _may_be_bound_anew(value)):
                return "%s uses %s of the function around it, which may change" % (function.__name__, name)
        return None


def _is_reassigned(name, variables):
    """Return whether a module assigns a global of its own more than once, in a loop, or in a function."""
    if "__file__" not in variables:
        return True  # what was typed or generated
    tree = step_functions.source_tree(variables["__file__"])
    is_of_functions = any([name in each.names for each in ast.walk(tree) if isinstance(each, ast.Global)])
    return is_of_functions or _assignments(tree.body, name) > 1


def _assignments(statements, name):
    """Return how often statements of a module assign a name; two for one in a loop."""
    found = 0
    for statement in statements:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        stores = [
            each
            for each in ast.walk(statement)
            if isinstance(each, ast.Name) and each.id == name and not isinstance(each.ctx, ast.Load)
        ]
        is_loop = any([isinstance(each, (ast.For, ast.While)) for each in ast.walk(statement)])
        found += len(stores) * (2 if is_loop or isinstance(statement, ast.AugAssign) else 1)
    return found
