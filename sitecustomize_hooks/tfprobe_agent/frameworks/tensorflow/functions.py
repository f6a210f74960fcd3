"""The tf.function wrappers: outermost calls of `Function` and `ConcreteFunction` that execute eagerly.

The graphs that really run are those that placement and grappler make of tf.functions, and the captures name their ops.
TensorFlow returns them only while it prepares a function, which is at its first call; so the first step of a loop runs
with graph collection switched on. That changes no step, and a job that collects graphs itself is left alone.
"""

import sys
import threading
import weakref

from tfprobe_agent import patching
from tfprobe_agent.core import step_wrapper
from tfprobe_agent.core.guard import STATE, failed
from tfprobe_agent.core.process_dir import tensorflow_version
from tfprobe_agent.core.recorder import current_recorder, find_named
from tfprobe_agent.core.steps_layout import RETRACES
from tfprobe_agent.core.threads import cache_loop, entry_of
from tfprobe_agent.frameworks.activity_hooks import plain_name
from tfprobe_agent.unpatched import UNPATCHED

from . import profiler

_CONTEXT = "tensorflow.python.eager.context"
_SUMMARY = "tensorflow.python.ops.summary_ops_v2"

# The functions that Keras trains, tests and predicts with: id -> (weak reference, kind, model name).
KERAS_FUNCTIONS = {}


class _Eager:
    """TensorFlow's module of the eager context, looked up once: every step uses it."""

    module = None


def patch(module):
    """Patch the class `Function` or `ConcreteFunction` that this module defines."""
    for name in ("Function", "ConcreteFunction"):
        cls = module.__dict__.get(name)
        if cls is None or cls.__module__ != module.__name__:
            continue
        if name == "Function" and not hasattr(cls, "get_concrete_function"):
            continue
        if module.__name__ == "tensorflow.python.eager.function" and name == "Function":
            continue  # the tracing machinery below def_function.Function, whose calls are no steps
        # A parameter server's coordinator calls concrete functions below __call__, to be able to cancel them.
        method = "_call_impl" if name == "ConcreteFunction" and "_call_impl" in cls.__dict__ else "__call__"
        patching.patch_method(cls, method, step_wrapper.make(find, profiler.trace, applies=executing_eagerly))


def mark_keras(function, kind, model_name):
    """Note that calls of this tf.function are steps of `kind`."""
    key = id(function)
    known = KERAS_FUNCTIONS.get(key)
    if known is not None and known[0]() is function and known[1:] == (kind, model_name):
        return
    KERAS_FUNCTIONS[key] = (entry_of(function, KERAS_FUNCTIONS, key), kind, model_name)


def executing_eagerly():
    """Return whether a call runs now rather than adds to a graph; without creating TensorFlow's context."""
    module = _Eager.module
    if module is None:
        module = _Eager.module = sys.modules[_CONTEXT]
    context = module._context
    return module.executing_eagerly() if context is None else context._thread_local_data.is_eager


def find(current, args, kwargs):
    """Return the Loop of a call of this function."""
    if not args or not executing_eagerly():
        return None
    instance = args[0]
    loop = current.loop_cache.get(id(instance))
    if loop is not None:
        return loop
    kind, name = "function", name_of(instance)
    marked = KERAS_FUNCTIONS.get(id(instance))
    if marked is not None and marked[0]() is instance:
        kind, name = marked[1:]
    loop = find_named(kind, name)
    cache_loop(id(instance), instance, loop)
    if loop is not None:
        loop.owner = weakref.ref(instance)
        loop.after_fold = note_retraces
        collect_first_step(loop)
    return loop


def name_of(function):
    """Return the name of the loop of a tf.function."""
    name = getattr(function, "_name", None) or getattr(getattr(function, "graph", None), "name", None)
    return plain_name(name if isinstance(name, str) else type(function).__name__)


def note_retraces(loop):
    """Store how often this loop's function was retraced after its first trace."""
    function = loop.owner() if loop.owner is not None else None
    counter = getattr(function, "experimental_get_tracing_count", None)
    retraces = counter() - 1 if counter is not None else 0
    if retraces > loop.retraces:
        loop.retraces = retraces
        loop.words[loop.base + RETRACES] = retraces
        current_recorder().process_dir.event("retrace", work=loop.index, count=retraces)


def collect_first_step(loop):
    """Collect the graphs of the first step of this loop, which is about to run."""
    if loop.n or loop.after_first is not None or current_recorder().config.trace_level == "off" or not STATE.tracing:
        return
    if (tensorflow_version() or "1.").startswith("1.") or threading.active_count() > 1:
        return  # TensorFlow 1.14 crashes when collection is switched while another thread runs a function
    if getattr(sys.modules.get(_SUMMARY), "_current_trace_context", None) is not None:
        return  # tf.summary.trace_on: the graphs are the job's
    context = sys.modules[_CONTEXT]._context
    if context is None or not getattr(context, "_context_handle", None):
        return  # nothing has run yet; this would create the devices before the job does
    began_ns = UNPATCHED.monotonic_ns()
    context.enable_run_metadata()
    loop.after_first = _write_optimized
    loop.next_fold = 1
    current_recorder().spent_once(UNPATCHED.monotonic_ns() - began_ns)


def _write_optimized(loop):
    """Store the collected graphs and stop collecting."""
    began_ns = UNPATCHED.monotonic_ns()
    context = sys.modules[_CONTEXT]._context
    try:
        metadata = context.export_run_metadata()
    finally:
        context.disable_run_metadata()
    try:
        size = 0
        if metadata is not None and len(metadata.function_graphs):
            name = "work-%d.optimized.pb" % loop.index
            size = current_recorder().process_dir.write_file(metadata.SerializeToString(), "graphs", name)
        cost_ns = UNPATCHED.monotonic_ns() - began_ns
        current_recorder().spent_once(cost_ns)
        current_recorder().process_dir.event("optimized", work=loop.index, bytes=size, cost_ns=cost_ns)
    except Exception:
        failed("writing optimized graphs", tracing_only=True)
