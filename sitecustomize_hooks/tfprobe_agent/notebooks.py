"""Which notebook this process is the kernel of, and the numbers of the cells it has compiled. Imports nothing.

IPython compiles a cell under a file name of its own, such as /tmp/ipykernel_4711/2965734838.py, which no user knows.
"""

import os
import sys
from json import loads

from . import redact
from .interruptions import let_through
from .unpatched import UNPATCHED, read_file

_SUFFIX = ".ipynb"


def notebook(path):
    """Return the file name of the notebook that this process is the kernel of, or None.

    `path` is the one that the front end put into the environment, or "".
    """
    if "ipykernel" not in sys.modules:
        return None
    paths = [found for found in [path] + _of_frontend() if found.endswith(_SUFFIX)]
    return redact.text(os.path.basename(paths[0])) if paths else None


def shell():
    """Return the IPython of this process, or None; a class that is asked before there is one would make it."""
    module = sys.modules.get("IPython.core.interactiveshell")
    return getattr(getattr(module, "InteractiveShell", None), "_instance", None)


def cell_numbers():
    """Return the number of the latest execution of each cell, by the file name that it was compiled under."""
    numbers = getattr(getattr(shell(), "compile", None), "_filename_map", None)
    if not isinstance(numbers, dict):
        return {}
    return {str(file): number for file, number in list(numbers.items()) if isinstance(number, int)}


def _of_frontend():
    """Return the notebook in the command that started this kernel: `jupyter nbconvert --execute train.ipynb`."""
    try:
        words = read_file("/proc/%d/cmdline" % UNPATCHED.getppid()).decode("utf-8", "replace").split("\0")
    except OSError:
        let_through()
        return []
    pairs = zip([""] + words, words)
    found = [word for before, word in pairs if word.endswith(_SUFFIX) and before != "--output"]
    # papermill names the notebook that it reads, and the one that it writes; of others, several leave it open
    is_papermill = any([os.path.basename(word) == "papermill" for word in words[:3]])
    return found[:1] if len(found) == 1 or is_papermill else []


def load_ipython_extension(shell):
    """Add `%tfprobe` to a kernel in whose environment tfprobe is not installed, from where it is installed.

    The job asked for it, by `%load_ext tfprobe`: it is told by an ImportError if that cannot be done.
    """
    boot = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    try:
        launcher = loads(read_file(os.path.join(boot, "launcher.json")).decode("utf-8"))
        python, extension = launcher["python"], launcher["extension"]
        source = read_file(extension)
        if sys.version_info < (3, 8) or not os.access(python, os.X_OK):
            raise OSError
    except (OSError, ValueError, KeyError, TypeError):
        let_through()
        raise ImportError(
            "tfprobe records this kernel but is not installed in its environment (%s), and the one that records "
            "cannot be reached from here. Run `%%pip install tfprobe` and restart the kernel." % sys.prefix
        )
    names = {"__name__": "tfprobe_notebook", "__file__": extension}
    exec(compile(source, extension, "exec"), names)
    names["add_magic"](shell, python)
