"""Compile the function of the job that computes gradients eagerly and applies them: put `tf.function` around it.

The first step runs eagerly, and shows which function it is. It is replaced where it is bound, for the next call.
"""

import functools
import sys

from tfprobe_agent.core.threads import THREAD
from tfprobe_agent.frameworks.tensorflow import functions
from tfprobe_agent.imports import is_library
from tfprobe_agent.interruptions import let_through
from tfprobe_agent.trial import units
from tfprobe_agent.trial.fixes import calls, step_functions

from . import tensors_for_numbers

MODULES = ("tensorflow.python.eager.backprop",)
_MAKERS = (
    "tensorflow.python.eager.polymorphic_function.polymorphic_function",
    "tensorflow.python.eager.def_function",
)
_APPLIES = frozenset(("apply_gradients", "apply", "minimize", "assign_sub"))


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
    if step_functions.is_inline(frame):
        note.skipped(step_functions.INLINE)
        return
    function, holders = step_functions.bound(frame)
    if function is None:
        note.skipped(step_functions.local(code.co_name))
        return
    step = _compiled(function, note)
    for holder in holders:
        setattr(holder, code.co_name, step)


def _compiled(function, note):
    """Return what runs the function as a graph, unless that turns out to be impossible."""
    maker = [sys.modules[name].function for name in _MAKERS if name in sys.modules][0]
    names = calls.Arguments(maker).names
    options = [name for name in ("reduce_retracing", "experimental_relax_shapes") if name in names]
    compiled = maker(function, **dict.fromkeys(options[:1], True))
    units.counts_as("function", functions.name_of(compiled), 1, "eager")
    converting = tensors_for_numbers.converting(_call, lambda: None, lambda why: None)
    traces = getattr(compiled, "experimental_get_tracing_count", lambda: 0)
    return step_functions.Step(function, functools.partial(converting, compiled), traces, note, _count_first).run


def _call(compiled, *args, **kwargs):
    return compiled(*args, **kwargs)


def _count_first():
    """Count the step that has run eagerly, unless an optimizer has ended it: those without one count from the sixth."""
    if not any([kind == "eager" and loop.n for (kind, _), loop in list(THREAD.current.loops.items())]):
        units.add(1)
