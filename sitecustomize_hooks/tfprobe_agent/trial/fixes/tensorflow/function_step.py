"""Compile the function of the job that computes gradients eagerly and applies them: put `tf.function` around it.

The first step runs eagerly, and shows which function it is. It is replaced where it is bound, for the next call.
"""

import ast
import functools
import sys

from tfprobe_agent.core.threads import THREAD
from tfprobe_agent.frameworks.tensorflow import functions
from tfprobe_agent.imports import is_library
from tfprobe_agent.interruptions import let_through
from tfprobe_agent.trial import units
from tfprobe_agent.trial.fixes import calls
from tfprobe_agent.unpatched import read_file

from . import tensors_for_numbers

MODULES = ("tensorflow.python.eager.backprop",)
_MAKERS = (
    "tensorflow.python.eager.polymorphic_function.polymorphic_function",
    "tensorflow.python.eager.def_function",
)
_APPLIES = frozenset(("apply_gradients", "apply", "minimize", "assign_sub"))
# A function that is traced more often depends on Python values: it would be traced on and on.
MAX_TRACES = 5
MAX_SOURCE_BYTES = 16 << 20


def patch(name, module, value, note):
    """Look at what enters a GradientTape."""
    seen = set()  # code that was looked at
    calls.replace(module.GradientTape, "__enter__", lambda original: _enter(original, seen, note))


def _enter(original, seen, note):
    def enter(self):
        code = sys._getframe(1).f_code
        if code not in seen and not THREAD.current.depth and functions.executing_eagerly():
            seen.add(code)
            try:
                _compile_step(sys._getframe(1), note)
            except Exception as error:
                let_through()
                note.failed("%s: %s" % (type(error).__name__, error))
        return original(self)

    return enter


def _compile_step(frame, note):
    """Replace the function of the job, of this frame or outside of it, that applies gradients."""
    while frame is not None:
        code = frame.f_code
        if not is_library(code.co_filename) and not _APPLIES.isdisjoint(code.co_names):
            break
        frame = frame.f_back
    if frame is None:
        note.skipped("no function of the program applies the gradients")
        return
    if code.co_name == "<module>" or _is_in_loop(code, frame.f_lineno):
        note.skipped("the step is written inline in a loop")
        return
    function, holders = _found(frame)
    if function is None:
        note.skipped("%s is local to another function" % code.co_name)
        return
    step = _compiled(function, note)
    for holder in holders:
        setattr(holder, code.co_name, step)


def _is_in_loop(code, line):
    """Return whether this line of a function is in a loop of that function, or its source cannot be read."""
    try:
        tree = ast.parse(read_file(code.co_filename, MAX_SOURCE_BYTES))
    except (OSError, SyntaxError, ValueError):
        let_through()
        return True
    functions_there = [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    own = [node for node in functions_there if node.name == code.co_name and node.lineno <= line <= _end(node)]
    loops = [each for node in own[-1:] for each in ast.walk(node) if isinstance(each, (ast.For, ast.While))]
    return not own or any(loop.lineno <= line <= _end(loop) for loop in loops)


def _end(node):
    return max(getattr(each, "lineno", 0) for each in ast.walk(node))


def _found(frame):
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


def _compiled(function, note):
    """Return what runs the function as a graph, unless that turns out to be impossible."""
    maker = next(sys.modules[name].function for name in _MAKERS if name in sys.modules)
    names = calls.Arguments(maker).names
    options = [name for name in ("reduce_retracing", "experimental_relax_shapes") if name in names]
    compiled = maker(function, **dict.fromkeys(options[:1], True))
    units.counts_as("function", functions.name_of(compiled), 1, "eager")
    call = tensors_for_numbers.converting(_call, lambda: None, lambda why: None)
    return _Step(function, compiled, call, note).run


def _call(compiled, *args, **kwargs):
    return compiled(*args, **kwargs)


class _Step:
    """A step that runs as a graph, or eagerly once that turns out to be impossible."""

    def __init__(self, function, compiled, call, note):
        self.function, self.compiled, self.call, self.note = function, compiled, call, note
        self.has_worked = self.has_failed = False

        def run(*args, **kwargs):
            return self._run(args, kwargs)

        self.run = functools.update_wrapper(run, function)

    def _run(self, args, kwargs):
        if self.has_worked and not self.has_failed:
            self.note.applied()
            self._count_traces()
            return self.call(self.compiled, *args, **kwargs)
        if self.has_failed:
            return self.function(*args, **kwargs)
        _count_first()
        try:
            result = self.call(self.compiled, *args, **kwargs)
        except Exception as error:
            let_through()
            self._give_up("cannot be traced: %s" % type(error).__name__)
            return self.function(*args, **kwargs)
        self.has_worked = True
        self.note.applied()
        return result

    def _count_traces(self):
        count = getattr(self.compiled, "experimental_get_tracing_count", None)
        if count is not None and count() > MAX_TRACES:
            self._give_up("was traced more than %d times" % MAX_TRACES)

    def _give_up(self, why):
        self.has_failed = True
        self.note.skipped("%s %s" % (self.function.__name__, why))


def _count_first():
    """Count the step that has run eagerly, unless an optimizer has ended it: those without one count from the sixth."""
    if not any(kind == "eager" and loop.n for (kind, _), loop in list(THREAD.current.loops.items())):
        units.add(1)
