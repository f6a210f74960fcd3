"""Replace the function of the job that does one step, where it is bound, by one that compiles it."""

import ast
import functools
import sys

from tfprobe_agent.interruptions import let_through
from tfprobe_agent.unpatched import read_file

INLINE = "the step is written inline in a loop"
# A function that is traced more often depends on Python values: it would be traced on and on.
MAX_TRACES = 5
MAX_SOURCE_BYTES = 16 << 20


def is_inline(frame):
    """Return whether what runs in this frame is no call of a function that does one step: a module, or a loop."""
    return frame.f_code.co_name == "<module>" or _is_in_loop(frame.f_code, frame.f_lineno)


def local(function_name):
    """Return the reason for a function that is bound nowhere: each call of the function around it makes another."""
    return "%s is local to another function" % function_name


def source_tree(file):
    """Return the syntax tree of a file. Raises OSError, SyntaxError or ValueError where there is none."""
    return ast.parse(read_file(file, MAX_SOURCE_BYTES))


def _is_in_loop(code, line):
    """Return whether this line of a function is in a loop of that function, or its source cannot be read."""
    try:
        tree = source_tree(code.co_filename)
    except (OSError, SyntaxError, ValueError):
        let_through()
        return True
    functions_there = [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    own = [node for node in functions_there if node.name == code.co_name and node.lineno <= line <= _end(node)]
    loops = [each for node in own[-1:] for each in ast.walk(node) if isinstance(each, (ast.For, ast.While))]
    return not own or any([loop.lineno <= line <= _end(loop) for loop in loops])


def _end(node):
    return max(getattr(each, "lineno", 0) for each in ast.walk(node))


def bound(frame):
    """Return the function that runs in this frame, and the modules or the class that it is bound in; or None."""
    code = frame.f_code
    function = frame.f_globals.get(code.co_name)
    if getattr(function, "__code__", None) is code:
        return function, [module for module in list(sys.modules.values()) if _binds(module, code.co_name, function)]
    owner = frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None
    for cls in type(owner).__mro__:
        method = vars(cls).get(code.co_name)
        if getattr(method, "__code__", None) is code:
            return method, [cls]
    return None, ()


def _binds(module, name, function):
    return getattr(module, "__dict__", {}).get(name) is function


def _do_nothing():
    """Stand in for what a step need not do."""


class Step:
    """A step that is compiled, or runs as it is once that turns out to be impossible.

    `call(*args, **kwargs)` runs it compiled, `traces()` returns how often it was traced. `before_first()` is called
    before the first of these calls, and `worked()` after one that proved to be possible: the first, and the one after
    which `has_worked` was cleared. If it `can_be_repeated`, later calls that raise are repeated as they are, too.
    """

    def __init__(
        self, function, call, traces, note, before_first=_do_nothing, worked=_do_nothing, can_be_repeated=False
    ):
        self.can_be_repeated = can_be_repeated
        self.function, self.call, self.traces, self.note = function, call, traces, note
        self.before_first, self.worked = before_first, worked
        self.has_worked = self.has_failed = False

        def run(*args, **kwargs):
            return self._run(args, kwargs)

        self.run = functools.update_wrapper(run, function)

    def _run(self, args, kwargs):
        if self.has_worked and self.traces() > MAX_TRACES:
            self.give_up("was traced more than %d times" % MAX_TRACES)
        if self.has_failed:
            return self.function(*args, **kwargs)
        if self.has_worked and not self.can_be_repeated:
            self.note.applied()
            return self.call(*args, **kwargs)
        if not self.has_worked:
            self.before_first()
        try:
            result = self.call(*args, **kwargs)
        except Exception as error:
            let_through()
            self.give_up("cannot be traced: %s" % type(error).__name__)
            return self.function(*args, **kwargs)
        if not self.has_worked:
            self.has_worked = True
            self.worked()
        self.note.applied()
        return result

    def give_up(self, why):
        """Run the function as it is from now on."""
        self.has_failed = True
        self.note.skipped("%s %s" % (self.function.__name__, why))
