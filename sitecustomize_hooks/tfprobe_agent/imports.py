"""Which packages the job imports, where, and how long each takes: the outermost imports of libraries, one at a time.

What a library imports counts as part of its own import. Modules of the job are transparent: their imports are recorded
with their own line.
"""

import sys
from _frozen_importlib_external import ExtensionFileLoader, SourceFileLoader, SourcelessFileLoader
from _thread import get_ident
from os.path import basename, dirname, join

from .unpatched import UNPATCHED

# Packages whose import is always recorded, however short and wherever they are installed.
ALWAYS = frozenset(("tensorflow", "keras", "tf_keras", "jax", "torch"))
# Imports of other packages are recorded from this duration on: a program imports hundreds that take less.
LEAST_NS = 5 * 1000 * 1000
# Imports that wait to be recorded: a process may never import TensorFlow.
MAX_PENDING = 1000
# Loaders of these types belong to one module each. One of another type may serve many modules, or stand in for another.
_OWN_LOADERS = (SourceFileLoader, SourcelessFileLoader, ExtensionFileLoader)
_LIBRARIES = ("/site-packages/", "/dist-packages/", "/lib/python3")
_PACKAGES = _LIBRARIES[:2]

# The frame around the execution of a module has the file name of the import machinery: the interpreter removes such
# frames from tracebacks, and `warnings` does not count them, so a deprecated library still names the job's line.
_MAKER = """
def watching(execute, begin, end, ready):
    def exec_module(module):
        try:
            begin()
            execute(module)
        finally:
            end(module)
        ready(module)
    return exec_module
"""
_made = {}
exec(compile(_MAKER, "<frozen importlib._bootstrap_external>", "exec"), _made)
watching = _made["watching"]


class Imports:
    """The imports under way, by thread, and those that wait to be recorded."""

    def __init__(self):
        self.under_way = set()  # idents of threads that execute a library's module
        self.pending = []

    def begin(self):
        """Note that the calling thread executes a library; return the time."""
        self.under_way.add(get_ident())
        return UNPATCHED.monotonic_ns()

    def end(self, name, began_ns):
        """Note that it has finished; keep the import if it took long enough. Return whether it was kept."""
        self.under_way.discard(get_ident())
        ended_ns = UNPATCHED.monotonic_ns()
        if ended_ns - began_ns < LEAST_NS and name not in ALWAYS:
            return False
        if len(self.pending) < MAX_PENDING:
            place = place_of(sys._getframe(2))
            self.pending.append((name.partition(".")[0], began_ns, ended_ns, get_ident()) + place)
        return True


def is_watched(name, spec):
    """Return whether a module belongs to a library and has a loader that can be watched."""
    if name.partition(".")[0] in ALWAYS:
        return True
    return type(spec.loader) in _OWN_LOADERS and type(spec.origin) is str and is_library(spec.origin)


def is_library(file):
    """Return whether a file belongs to a package or to Python, not to the job."""
    return any([part in file for part in _LIBRARIES])


def have_find_spec(finders):
    """Return whether all finders have `find_spec`; until Python 3.11 some may have only `find_module`."""
    return all([hasattr(finder, "find_spec") for finder in finders])


def place_of(frame):
    """Return file and line of the innermost frame of the job, or else of the package that is the program."""
    program = "", 0
    while frame is not None:
        file = frame.f_code.co_filename
        if not (is_library(file) or file.startswith((_HERE, "<frozen")) or _is_generated(file)):
            return file, frame.f_lineno or 0
        if any([part in file for part in _PACKAGES]):
            program = file, frame.f_lineno or 0
        frame = frame.f_back
    return program


def _is_generated(file):
    """Return whether AutoGraph wrote this file, as of TensorFlow 2.2 or earlier; it deletes the file at exit."""
    name = basename(file)
    return name.startswith("__autograph_generated_file") or (name[:3] == "tmp" and len(name) == len("tmp12345678.py"))


_HERE = join(dirname(is_library.__code__.co_filename), "")
