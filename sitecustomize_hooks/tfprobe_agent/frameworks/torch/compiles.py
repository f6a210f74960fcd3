"""What torch.compile compiles: how long Dynamo and the backend took, of which function, why again, where graphs break.

PyTorch hands what it has measured of a compilation to one function when the compilation is over, and it is this that is
wrapped: a call of compiled code pays nothing, nothing is traced by Dynamo, and its logs and counters are left alone. A
version that has no such function, or hands over something else, has no compilations in its recording.

A step in which something is compiled is not traced: the trace would show the Python of Dynamo, up to 55 MB of it for a
function of three lines, and PyTorch warns on stderr if it is profiled meanwhile ("PythonDispatchMode", 2.13). So the
window is ended where a compilation begins.
"""

import sys
import threading

from tfprobe_agent import activities, patching, redact
from tfprobe_agent.core import step_wrapper, tracing
from tfprobe_agent.core.guard import never_raise_noting, never_raise_tracing
from tfprobe_agent.core.recorder import CURRENT
from tfprobe_agent.core.steps_layout import RETRACES
from tfprobe_agent.imports import is_library, place_of
from tfprobe_agent.interruptions import leave_traceback
from tfprobe_agent.unpatched import UNPATCHED

from . import profiler
from .thread_state import torch_thread

ACTIVITY = "torch_compile"
_UTILS, _CONTEXT = "torch._dynamo.utils", "torch._dynamo.metrics_context"
_COMPILED = "a function was compiled in the step"
# The functions to which measurements are handed: from 2.3 on, and before, where it is a name of another module.
_RECORD, _LOG = "record_compilation_metrics", "log_compilation_event"
# The function that compiles, whose frame knows the code, and how it names the rest of a function after a break.
_COMPILE, _COMPILER, _REST = "_compile", "torch._dynamo.convert_frame", "torch_dynamo_resume_in_"
_OLD_REST = "<resume in "
# The file of the functions that stand around those of libraries.
_WRAPPERS = "_dynamo/external_utils.py"
_CACHES = ("aotautograd_local_cache_%s_count", "inductor_fx_local_cache_%s_count")
# How a function fails that then runs without having been compiled.
_SKIPS = ("Unsupported", "UserError")
# Objects of 2.6 that have taken the function before it can be wrapped.
_CONTEXTS = ("_METRICS_CONTEXT", "_RUNTIME_METRICS_CONTEXT")
_LONGEST_NAME, _LONGEST_REASON = 160, 300
# Events of a process, of compilations and breaks; counts and times of what is compiled later are among the activities.
_MOST_EVENTS = 2000
# Compilations whose backward pass may still be compiled, by PyTorch's id of each.
_MOST_KNOWN = 256
_STEP_CODE = step_wrapper.make(None, None)(None).__code__


class _Seen:
    """What this process has compiled; forgotten in a forked child."""

    by_id = {}  # noqa: RUF012 - replaced in a forked child
    counts = {}  # noqa: RUF012 - by name: how often a function was compiled
    breaks = 0  # of PyTorch's list
    events = 0


def patch(module):
    """Wrap the function of torch._dynamo.utils to which PyTorch hands what it has measured."""
    original = getattr(module, _RECORD, None)
    patching.patch_call(module, _RECORD, _around_record)
    for context in (getattr(module, name, None) for name in _CONTEXTS):
        if context is not None and getattr(context, "_on_exit", None) is original:
            context._on_exit = getattr(module, _RECORD)


def patch_old(module):
    """Wrap the one that torch._dynamo.convert_frame calls up to 2.2, and the start of a compilation up to 2.5."""
    if not hasattr(sys.modules.get(_UTILS), _RECORD):
        patching.patch_call(module, _LOG, _around_record)
    if _CONTEXT not in sys.modules:
        patching.patch_call(module, _COMPILE, _around_compile)


def patch_contexts(module):
    """Wrap the start of the context in which PyTorch compiles, also backward passes: from 2.6 on."""
    context = getattr(module, "MetricsContext", None)
    if isinstance(context, type):
        patching.patch_method(context, "__enter__", _around_enter)


def reset():
    """Forget what the parent compiled, in a forked child."""
    _Seen.by_id, _Seen.counts, _Seen.events = {}, {}, 0


def _around_record(original):
    def record_compilation_metrics(*args, **kwargs):
        end_ns = UNPATCHED.monotonic_ns()
        try:
            result = original(*args, **kwargs)
        except BaseException as error:
            leave_traceback(error)
            raise
        _note(end_ns, args, kwargs)
        return result

    return record_compilation_metrics


def _around_enter(original):
    def enter(self):
        _end_window()
        try:
            return original(self)
        except BaseException as error:
            leave_traceback(error)
            raise

    return enter


def _around_compile(original):
    def compile_frame(*args, **kwargs):
        _end_window()
        try:
            if isinstance(kwargs.get("skip"), int):
                kwargs["skip"] += 1  # frames above the program's in what PyTorch logs
            return original(*args, **kwargs)
        except BaseException as error:
            leave_traceback(error)
            raise

    return compile_frame


@never_raise_tracing
def _end_window():
    """End the window of the calling thread, if one is open: something is about to be compiled."""
    window = tracing.TRACING.window
    if isinstance(window, profiler.Window) and window.thread == threading.get_ident():
        window.why_lost = _COMPILED
        if torch_thread().window is window:
            profiler.end_window(torch_thread(), _COMPILED)
        else:
            window.surrender()


class _Measured:
    """What PyTorch has measured of one compilation: a dict from 2.6 on, before an object, with other units."""

    def __init__(self, args):
        self.error = None
        self.values = args[0]
        if len(args) >= 5 and isinstance(args[2], dict):
            self.values, self.error = args[2], args[4]

    def get(self, name):
        if isinstance(self.values, dict):
            return self.values.get(name)
        return getattr(self.values, name, None)

    def ns(self, *names):
        """Return the first of these times that was measured, None if none was."""
        for name in names:
            value = self.get(name)
            if isinstance(value, (int, float)):
                return int(value * (1000 if name.endswith("_us") else 1000 * 1000 * 1000))
        return None

    def cached(self):
        """Return whether the caches on disk had all of it, None if none was looked into."""
        hits, misses = (any([self.get(name % what) for name in _CACHES]) for what in ("hit", "miss"))
        return hits and not misses if hits or misses else None


class _Compilation:
    """One compilation: of a function, of the rest of one after a graph break, or of a backward pass."""

    def __init__(self, name, guard):
        self.name = name
        self.guard = guard  # which guard of an earlier compilation did not hold, None if there was none
        self.place = place_of(sys._getframe())
        self.is_backward = False
        self.stages = None, None, None
        self.loop = self.step = None


@never_raise_noting
def _note(end_ns, args, kwargs):
    """Write what was compiled, and note the time as the job's."""
    recorder = CURRENT.recorder
    if recorder is None or recorder.pid != UNPATCHED.getpid() or kwargs or not args:
        return
    measured = _Measured(args)
    if measured.get("is_runtime"):
        return  # a kernel was tuned, or a CUDA graph recorded, by code that had been compiled
    total_ns = measured.ns("duration_us", "entire_frame_compile_time_s", "dynamo_cumulative_compile_time_us")
    compilation = _backward(measured) if _is_backward(measured) else _forward(measured)
    if compilation is None or total_ns is None:
        return
    backend_ns = measured.ns("aot_autograd_cumulative_compile_time_us", "backend_compile_time_s")
    inner_ns = measured.ns("inductor_cumulative_compile_time_us", "inductor_compile_time_s")
    compilation.stages = _stages(compilation.is_backward, total_ns, backend_ns, inner_ns)
    start_ns = end_ns - total_ns
    activities.note(ACTIVITY, compilation.name, start_ns, end_ns, place=compilation.place)
    tracing.compiled(total_ns, of_any_thread=compilation.is_backward)
    _find_step(compilation)
    if compilation.is_backward or measured.get("co_name") is not None:
        _write(
            recorder, compilation, start_ns, measured.cached()
        )  # else it was refused: the function has been compiled too often
    _write_breaks(recorder, compilation, measured)
    recorder.spent_once(UNPATCHED.monotonic_ns() - end_ns)


def _is_backward(measured):
    return measured.get("is_forward") is False or type(measured.values).__name__.startswith("Bwd")


def _forward(measured):
    """Return the compilation of a function, whose frame is being looked for in those that call us."""
    known = _compiling_frame() or {}
    code, scope = known.get("code"), known.get("locals")
    if not isinstance(code, type(_around_record.__code__)):
        return None  # an export, the compiler of ahead-of-time packages, or a version that is not known
    guard = measured.get("recompile_reason")
    if guard is None and measured.get("cache_size"):
        failures = getattr(sys.modules.get(_UTILS), "guard_failures", None)
        reasons = failures.get(code) if isinstance(failures, dict) else None
        guard = str(reasons[-1]) if isinstance(reasons, list) and reasons else ""
    compilation = _Compilation(
        _name_of(code, scope if isinstance(scope, dict) else {}), None if guard is None else _one_line(guard)
    )
    identity = _compile_id()
    if identity is not None:
        _Seen.by_id[identity] = compilation.name, compilation.guard
        if len(_Seen.by_id) > _MOST_KNOWN:
            del _Seen.by_id[next(iter(_Seen.by_id))]
    return compilation


def _backward(measured):
    """Return the compilation of a backward pass, which PyTorch puts off until it is needed."""
    name, guard = _Seen.by_id.get(_compile_id(), ("a function", None))
    compilation = _Compilation(name + ", backward", guard)
    compilation.is_backward = True
    return compilation


def _compiling_frame():
    frame = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == _COMPILE and frame.f_globals.get("__name__") == _COMPILER:
            return frame.f_locals
        frame = frame.f_back
    return None


def _compile_id():
    """Return PyTorch's id of what is being compiled in this thread."""
    context = getattr(sys.modules.get("torch._guards"), "CompileContext", None)
    current = getattr(context, "current_compile_id", None)
    return None if current is None else str(current())


def _name_of(code, scope):
    """Return the name of a function as the program knows it: a method with the class of its object."""
    name, resumed = code.co_name, ""
    if name.startswith(_REST):
        name, _, line = name[len(_REST) :].rpartition("_at_")
        resumed = " (resumed at line %s)" % line
    elif name.startswith(_OLD_REST):
        name, resumed = name[len(_OLD_REST) : -1], " (resumed)"
    owner = scope.get("self")
    if code.co_filename.endswith(_WRAPPERS):
        # What stands around a function of a library, and around a module of one.
        wrapped = scope.get("fn")
        is_module = hasattr(type(wrapped), "forward")
        owner = wrapped if is_module else getattr(wrapped, "__self__", None)
        name = "forward" if is_module else getattr(wrapped, "__name__", name)
    if owner is not None and hasattr(type(owner), name):
        name = "%s.%s" % (type(owner).__name__, name)
    elif name == code.co_name:
        name = getattr(code, "co_qualname", name).rpartition("<locals>.")[2]  # from Python 3.11 on
    return name[:_LONGEST_NAME] + resumed


def _stages(is_backward, total_ns, backend_ns, inner_ns):
    """Return the times of Dynamo, of what prepares its graphs (AOTAutograd), and of the backend itself.

    Each is measured with what it calls inside. A backend that is not Inductor is not measured apart.
    """
    if is_backward:
        return None, total_ns - (inner_ns or 0), inner_ns
    if inner_ns is None or backend_ns is None:
        return total_ns - (backend_ns or 0), None, backend_ns
    return total_ns - backend_ns, backend_ns - inner_ns, inner_ns


def _find_step(compilation):
    """Look for the step under way: in the agent's own frames, or between two marks of an optimizer."""
    frame = sys._getframe()
    while frame is not None and compilation.loop is None:
        if frame.f_code is _STEP_CODE:
            compilation.loop = frame.f_locals["loop"]
        frame = frame.f_back
    loop = compilation.loop or torch_thread().marked
    if loop is not None:
        compilation.loop = loop.shared or loop
        compilation.step = compilation.loop.n


def _write(recorder, compilation, start_ns, cached):
    """Write the event of a compilation; another one for a guard that did not hold is a retrace of its loop."""
    loop, name = compilation.loop, compilation.name
    is_known = loop is not None and loop.index >= 0
    count = _Seen.counts[name] = _Seen.counts.get(name, 0) + 1
    if is_known and compilation.guard is not None and not compilation.is_backward:
        loop.retraces += 1
        loop.words[loop.base + RETRACES] = loop.retraces
        recorder.process_dir.event("retrace", work=loop.index, count=loop.retraces)
    if _may_write():
        trace_ns, lower_ns, backend_ns = compilation.stages
        recorder.process_dir.event(
            "compile", work=loop.index if is_known else None, step=compilation.step if is_known else None, name=name,
            count=count, start_ns=start_ns, trace_ns=trace_ns, lower_ns=lower_ns, backend_ns=backend_ns, cached=cached,
            first=compilation.guard is None, changed=None, changes=None, guard=compilation.guard,
            compiler="torch.compile", called_at=compilation.place,
        )  # fmt: skip


def _may_write():
    _Seen.events += 1
    return _Seen.events <= _MOST_EVENTS


def _write_breaks(recorder, compilation, measured):
    """Write where the graph of this compilation breaks, or why the function runs without having been compiled."""
    known = getattr(sys.modules.get(_UTILS), "graph_break_reasons", None)
    if not isinstance(known, list):
        return
    new = known[_Seen.breaks if _Seen.breaks <= len(known) else 0 :]
    _Seen.breaks = len(known)
    for found in new:
        reason, stack = getattr(found, "reason", None), getattr(found, "user_stack", None)
        if reason is not None and isinstance(stack, (list, tuple)):
            _write_break(recorder, compilation, reason, _place_in(stack), False)
    kind = measured.get("fail_type") or type(measured.error).__name__
    if kind in _SKIPS:
        reason = measured.get("fail_reason") or measured.error
        file, line = measured.get("fail_user_frame_filename"), measured.get("fail_user_frame_lineno")
        is_known = isinstance(file, str) and isinstance(line, int)
        _write_break(recorder, compilation, reason, (file, line) if is_known else compilation.place, True)


def _write_break(recorder, compilation, reason, place, is_skipped):
    if not _may_write():
        return
    loop = compilation.loop
    is_known = loop is not None and loop.index >= 0
    recorder.process_dir.event(
        "graph_break", work=loop.index if is_known else None, step=compilation.step if is_known else None,
        name=compilation.name, reason=_one_line(reason), at=place, skipped=is_skipped,
    )  # fmt: skip


def _place_in(stack):
    """Return file and line of the innermost frame of the job, or else of the innermost one."""
    known = [frame for frame in stack if isinstance(getattr(frame, "filename", None), str)]
    frames = [frame for frame in known if not is_library(frame.filename)] or known
    return (frames[-1].filename, frames[-1].lineno or 0) if frames else ("", 0)


def _one_line(text):
    """Return what differs or is wrong: the first line, and the explanation if there is one, without secrets."""
    lines = str(text).strip().split("\n")
    words = lines[0].partition("  # ")[0].strip()
    explained = lines[1].strip() if len(lines) > 1 else ""
    if explained.startswith("Explanation: "):
        words = "%s: %s" % (words, explained[len("Explanation: ") :])
    return redact.text(words[:_LONGEST_REASON])
