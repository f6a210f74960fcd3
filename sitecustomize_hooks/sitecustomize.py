"""Start the agent when a Python interpreter of a recorded job starts, then step out of the way.

This file is in the boot directory under two names. As `sitecustomize` it is the first to run. As `usercustomize` it is
found only if another sitecustomize precedes this one and does not run the next.

It must parse and do no harm on every Python, 2.7 included. It may not print, raise an error of the agent, or leave a
trace: the boot directory is removed from sys.path again, and the module of the same name that this one shadows runs as
if it had been found first. If there is none, the import fails as it would without the agent.
"""

import os
import sys


def _boot_directory():
    return os.path.dirname(__file__)


def _arm(boot):
    """Start the agent, unless it is switched off or does not support this interpreter."""
    if os.environ.get("TFPROBE_DISABLE", "0") not in ("", "0"):
        return
    if sys.version_info < (3, 6) or sys.implementation.name != "cpython":
        return
    if "_signal" not in sys.modules:
        return  # a subinterpreter, the only one that starts without it; what we import there breaks Python 3.12 at exit
    if "tfprobe_agent" in sys.modules:  # an inner `tfprobe run` was first; one agent is enough
        return
    from tfprobe_agent import boot as agent_boot

    agent_boot.arm(boot)


def _leave_path(boot):
    """Remove the boot directory from sys.path and return the entries after it; PYTHONPATH still has it for children."""
    behind = sys.path[sys.path.index(boot) + 1 :] if boot in sys.path else sys.path
    sys.path[:] = [entry for entry in sys.path if entry != boot]
    sys.path_importer_cache.pop(boot, None)
    return [entry for entry in behind if entry != boot]


def _run_shadowed(path):
    """Run the module of this name that this file shadows; its errors, a missing one's included, reach `site` unchanged.

    Entries before this one have run: whatever was found there looked for the next one, which is this.
    """
    if sys.version_info < (3,):
        import imp

        file, path, description = imp.find_module(__name__, path)
        del sys.modules[__name__]
        imp.load_module(__name__, file, path, description)
        return
    # The frozen modules are always there; importlib.machinery would bring modules that the job has not imported.
    from _frozen_importlib import module_from_spec
    from _frozen_importlib_external import PathFinder

    spec = PathFinder.find_spec(__name__, path)
    if spec is None or spec.loader is None:
        # `site` ignores exactly this error, and no module of this name stays in sys.modules, as without the agent.
        raise ImportError("No module named %r" % __name__, name=__name__)
    module = module_from_spec(spec)
    sys.modules[__name__] = module
    spec.loader.exec_module(module)


try:
    _arm(_boot_directory())
except Exception:
    pass  # no error of the agent may reach the job; without an agent there is no log to write to
_path = sys.path
try:
    _path = _leave_path(_boot_directory())
except Exception:
    pass
_run_shadowed(_path)
