"""Seeds for everything that the job draws, the same in all arms: Python's, NumPy's, and those of the frameworks."""

import random

from tfprobe_agent.core.guard import STATE
from tfprobe_agent.interruptions import let_through

from .frameworks import FRAMEWORKS


def begin(seed):
    """Seed what the interpreter itself has."""
    random.seed(seed)


def patches(seed):
    """Return pairs of names of modules and what to call with each once it has run."""
    of_numpy = ("numpy.random",), lambda _name, module: module.seed(seed)
    return [of_numpy] + [(framework.MODULES, _with(framework, seed)) for framework in map(load, FRAMEWORKS)]


def _with(framework, seed):
    def patch(name, module):
        try:
            framework.patch(name, module, seed)
        except Exception:
            let_through()
            STATE.log.error("seeds in %s" % name)  # arms may differ then, which their weights show

    return patch


def load(name):
    """Return the module of a framework."""
    return __import__("tfprobe_agent.trial.frameworks." + name, fromlist=["patch"])
