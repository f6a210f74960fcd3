"""Which packages the job imports, where, and how long each takes: the outermost imports of libraries, one at a time.

What a library imports belongs to its own import. Modules of the job are looked through: what they import is told with
their line.
"""

import sys
from _frozen_importlib_external import ExtensionFileLoader, SourceFileLoader, SourcelessFileLoader
from _thread import get_ident
from os.path import basename, dirname, join

from .unpatched import UNPATCHED

# Packages whose import is told however short it is, and wherever they lie.
ALWAYS = frozenset(("tensorflow", "keras", "tf_keras"))
# Others are told from here on: a program imports hundreds that take less.
LEAST_NS = 5 * 1000 * 1000
# Imports that wait for somebody to record them: a process may never import TensorFlow.
MAX_PENDING = 1000
# Each module has a loader of these of its own. One of another kind may serve many, or stand for another.
_OWN_LOADERS = (SourceFileLoader, SourcelessFileLoader, ExtensionFileLoader)
_LIBRARIES = ("/site-packages/", "/dist-packages/", "/lib/python3")
_PACKAGES = _LIBRARIES[:2]

# The frame around the execution of a module is one of the import machinery's, by its file's name: the interpreter takes
# these out of tracebacks, and `warnings` does not count them, so a deprecated library still warns of the job's line.
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
    """The imports under way, by thread, and those that nobody has recorded yet."""

    def __init__(self):
        self.under_way = set()  # idents of threads that execute a library's module
        self.pending = []

    def begin(self):
        """Note that the calling thread executes a library; return when."""
        self.under_way.add(get_ident())
        return UNPATCHED.monotonic_ns()

    def end(self, name, began_ns):
        """Note that it has: what took long enough waits to be told."""
        self.under_way.discard(get_ident())
        ended_ns = UNPATCHED.monotonic_ns()
        if ended_ns - began_ns < LEAST_NS and name not in ALWAYS:
            return False
        if len(self.pending) < MAX_PENDING:
            place = place_of(sys._getframe(2))
            self.pending.append((name.partition(".")[0], began_ns, ended_ns, get_ident()) + place)
        return True


def is_watched(name, spec):
    """Tell whether a module belongs to a library and has a loader that can be watched."""
    if name.partition(".")[0] in ALWAYS:
        return True
    return type(spec.loader) in _OWN_LOADERS and type(spec.origin) is str and is_library(spec.origin)


def is_library(file):
    """Tell whether a file is no code of the job: of a package, or of Python."""
    return any(part in file for part in _LIBRARIES)


def have_find_spec(finders):
    """Tell whether all finders can be asked as we do it; until Python 3.11 some may be of the old kind."""
    return all(hasattr(finder, "find_spec") for finder in finders)


def place_of(frame):
    """Return file and line of the innermost code of the job, or else of the package that the program is."""
    program = "", 0
    while frame is not None:
        file = frame.f_code.co_filename
        if not (is_library(file) or file.startswith((_HERE, "<frozen")) or _is_generated(file)):
            return file, frame.f_lineno or 0
        if any(part in file for part in _PACKAGES):
            program = file, frame.f_lineno or 0
        frame = frame.f_back
    return program


def _is_generated(file):
    """Tell whether AutoGraph wrote a file, which is gone when the job is: by TensorFlow 2.2 and later, and before."""
    name = basename(file)
    return name.startswith("__autograph_generated_file") or (name[:3] == "tmp" and len(name) == len("tmp12345678.py"))


_HERE = join(dirname(is_library.__code__.co_filename), "")
