"""The modules in a Kineto trace: the attribute path of each from the outermost model, and its parameters.

A trace numbers the modules of a class in the order in which they were called (`Linear_0`). The path is that of the
object at the same address.
"""

import gc
import sys
from hashlib import sha1
from json import dumps

from tfprobe_agent.core.guard import never_raise_tracing
from tfprobe_agent.interruptions import let_through
from tfprobe_agent.unpatched import UNPATCHED

_MODULES = "torch.nn.modules.module"


class _Known:
    """The modules of this process by address, as of the latest search; modules die, so a trace may ask for another."""

    paths = None


@never_raise_tracing
def write(recorder, modules):
    """Write the modules of a trace, once for each set of them; return the fingerprint, None without modules.

    They are given as address by name.
    """
    began_ns = UNPATCHED.monotonic_ns()
    called = sorted(modules.items())
    if not called:
        return None
    if _Known.paths is None or not all([_is_known(name, address) for name, address in called]):
        _Known.paths = _search()
    rows = [_row(name, _Known.paths.get(address)) for name, address in called]
    content = dumps({"schema": "tfprobe.modules/1", "modules": rows}).encode("utf-8")
    fingerprint = sha1(content).hexdigest()[:16]
    name = fingerprint + ".modules.json"
    if not UNPATCHED.isfile(recorder.process_dir.path("graphs", name)):
        recorder.process_dir.write_file(content, "graphs", name)
    recorder.spent_once(UNPATCHED.monotonic_ns() - began_ns)
    return fingerprint


def _is_known(name, address):
    """Return whether a module of that class was at that address."""
    return address in _Known.paths and _Known.paths[address][1] == name.rpartition("_")[0]


def _search():
    """Return path, class and parameters of each module by its address. Runs no code of the job's classes."""
    base = sys.modules[_MODULES].Module
    modules = [thing for thing in gc.get_objects() if base in type(thing).__mro__]
    inner = {id(child) for module in modules for child in _children(module).values()}
    paths = {}
    with sys.modules["torch"]._C.DisableTorchFunction():  # a mode of the program would see that shapes are read
        for root in modules:
            if id(root) not in inner:
                _walk(root, paths)
    return paths


def _walk(root, paths):
    waiting = [(root, "")]
    while waiting:
        module, path = waiting.pop()
        if id(module) in paths:
            continue
        parameters = [_parameter(*pair) for pair in (vars(module).get("_parameters") or {}).items()]
        paths[id(module)] = path, type(module).__name__, [row for row in parameters if row is not None]
        children = [(child, (path + "." if path else "") + name) for name, child in _children(module).items()]
        waiting.extend(reversed(children))


def _parameter(name, parameter):
    """Return name, shape and type of a parameter, or None: that of a lazy module has none before its first call."""
    try:
        return None if parameter is None else [name, list(parameter.shape), str(parameter.dtype).replace("torch.", "")]
    except Exception:
        let_through()
        return None


def _children(module):
    children = vars(module).get("_modules") or {}
    return {name: child for name, child in children.items() if child is not None}


def _row(name, known):
    if known is None:
        return {"name": name, "path": None, "class": name.rpartition("_")[0], "parameters": []}
    path, cls, parameters = known
    return {"name": name, "path": path, "class": cls, "parameters": parameters}
