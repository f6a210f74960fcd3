"""What JAX compiles: how long tracing, lowering and XLA took, of which function, and why again.

JAX times these stages by one context manager, which it enters only when it compiles, and it is this that is wrapped: a
cached call pays nothing, and the listeners of jax.monitoring, which a job can see and clear, are left alone.
"""

import sys

from tfprobe_agent import activities, patching
from tfprobe_agent.core import step_wrapper, tracing
from tfprobe_agent.core.guard import never_raise_noting
from tfprobe_agent.core.recorder import CURRENT
from tfprobe_agent.core.steps_layout import RETRACES
from tfprobe_agent.imports import place_of
from tfprobe_agent.interruptions import leave_traceback
from tfprobe_agent.unpatched import UNPATCHED

from . import functions, signatures

# JAX's own names of the stages, and the kinds of activity.
_STAGES = {
    "/jax/core/compile/jaxpr_trace_duration": "trace",
    "/jax/core/compile/jaxpr_to_mlir_module_duration": "lower",
    "/jax/core/compile/backend_compile_duration": "xla",
}
_ORDER = ("trace", "lower", "xla")
# What JAX writes around the name of a function while it lowers and compiles it.
_WRITTEN_AROUND = ("jit(", "pmap(", "pjit(")
_LONGEST_NAME = 160
# Events of a process; counts and times of what is compiled later are among the activities.
_MOST_EVENTS = 2000
# The code of each step wrapper, whose frame knows the loop of the step that runs.
_STEP_CODE = step_wrapper.make(None, None)(None).__code__


class _Thread(UNPATCHED.local):
    """What a thread is compiling."""

    timer = None  # JAX's object for the outermost stage under way
    stage = None
    began_ns = 0
    compilation = None
    is_cached = None  # whether XLA's result came from the persistent cache, if that was asked
    written = None  # of which function and step the latest event is, and under which name


class _Counts:
    """How often functions were compiled, by the number of their loop and their name, and how many events that made."""

    by_name = {}  # noqa: RUF012 - replaced in a forked child
    events = 0


_THREAD = _Thread()


def patch(module):
    """Wrap the timer of stages in jax._src.dispatch: a class, or in JAX 0.4 a function."""
    timer = module.__dict__.get("log_elapsed_time")
    if isinstance(timer, type):
        patching.patch_method(timer, "__enter__", _around_enter)
        patching.patch_method(timer, "__exit__", _around_exit)
        functions.Compilations.are_seen = hasattr(timer, "event") and hasattr(timer, "fun_name")
    else:
        patching.patch_call(module, "log_elapsed_time", _around_timer)
        functions.Compilations.are_seen = timer is not None


def patch_cache(module):
    """Wrap the look into the persistent cache, in jax._src.compilation_cache."""
    patching.patch_call(module, "get_executable_and_time", _around_lookup)


def reset():
    """Forget what the parent compiled, in a forked child."""
    _THREAD.timer = _THREAD.compilation = None
    _Counts.by_name, _Counts.events = {}, 0


def _around_enter(original):
    def enter(self):
        try:
            result = original(self)
        except BaseException as error:
            leave_traceback(error)
            raise
        _begin(self, self.event, self.fun_name)
        return result

    return enter


def _around_exit(original):
    def leave(self, *error):
        _end(self, error)
        try:
            return original(self, *error)
        except BaseException as thrown:
            leave_traceback(thrown)
            raise

    return leave


def _around_timer(original):
    def log_elapsed_time(fmt, fun_name, event=None):
        return _Timer(original(fmt, fun_name, event), fun_name, event)

    return log_elapsed_time


class _Timer:
    """Stands for JAX 0.4's timer of one stage."""

    __slots__ = ("_event", "_name", "_timer")

    def __init__(self, timer, name, event):
        self._timer = timer
        self._name = name
        self._event = event

    def __enter__(self):
        result = self._timer.__enter__()
        _begin(self, self._event, self._name)
        return result

    def __exit__(self, *error):
        _end(self, error)
        return self._timer.__exit__(*error)


def _around_lookup(original):
    def get_executable_and_time(*args, **kwargs):
        try:
            found = original(*args, **kwargs)
        except BaseException as error:
            leave_traceback(error)
            raise
        _note_lookup(found)
        return found

    return get_executable_and_time


@never_raise_noting
def _note_lookup(found):
    if _THREAD.timer is not None:
        _THREAD.is_cached = found[0] is not None


class _Compilation:
    """One function being compiled for one kind of arguments."""

    __slots__ = ("is_cached", "known", "leaves", "loop", "name", "place", "stages", "start_ns", "step")

    def __init__(self, name, start_ns):
        self.name = name
        self.start_ns = start_ns
        self.stages = {}  # how long each took, in ns
        self.is_cached = None
        self.known = None  # the Signatures of a function of the program
        self.leaves = None
        self.loop = None
        self.step = None
        self.place = place_of(sys._getframe(2))

    def continues_with(self, stage, name):
        """Return whether a stage is the next one of this."""
        return name == self.name and all([_ORDER.index(stage) > _ORDER.index(done) for done in self.stages])


@never_raise_noting
def _begin(timer, event, name):
    """Note that a stage begins. What is traced or compiled inside another stage belongs to that one."""
    stage, thread = _STAGES.get(event), _THREAD
    if stage is None or thread.timer is not None:
        return
    name, began_ns = _plain(name), UNPATCHED.monotonic_ns()
    compilation = thread.compilation
    if compilation is None or not compilation.continues_with(stage, name):
        thread.compilation = None
        if compilation is not None:
            _write(compilation)  # its last stage was not needed
        thread.compilation = _explained(_Compilation(name, began_ns))
        if CURRENT.recorder is not None:
            CURRENT.recorder.spent_once(UNPATCHED.monotonic_ns() - began_ns)
    thread.stage, thread.is_cached, thread.began_ns = stage, None, UNPATCHED.monotonic_ns()
    thread.timer = timer


@never_raise_noting
def _end(timer, error):
    """Note that a stage has ended, by an exception if `error` has one."""
    thread = _THREAD
    if thread.timer is not timer:
        return
    end_ns, thread.timer = UNPATCHED.monotonic_ns(), None
    compilation, stage = thread.compilation, thread.stage
    activities.note(stage, compilation.name, thread.began_ns, end_ns, place=compilation.place)
    compilation.stages[stage] = end_ns - thread.began_ns
    tracing.compiled(end_ns - thread.began_ns)
    if error[0] is not None:
        thread.compilation = None
    elif stage == _ORDER[-1]:
        thread.compilation = None
        compilation.is_cached = thread.is_cached
        _write(compilation)


def _explained(compilation):
    """Look for the call that compiles, in the agent's own frames: its function and arguments, and the running step."""
    if not functions.executes():
        return compilation  # a part of something that is traced by hand
    frame = sys._getframe(3)
    while frame is not None and (compilation.known is None or compilation.loop is None):
        if frame.f_code is _STEP_CODE:
            call = frame.f_locals
            known, loop = getattr(call["find"], "signatures", None), call["loop"]
            if known is not None and signatures.is_traced(call["args"], call["kwargs"]):
                break
            if known is not None and compilation.known is None:
                compilation.known = known
                compilation.leaves = signatures.describe(call["original"], known.options, call["args"], call["kwargs"])
            if loop is not None and compilation.loop is None:
                compilation.loop = loop.shared or loop
                compilation.step = compilation.loop.n
        frame = frame.f_back
    return compilation


def _write(compilation):
    """Write the event of a function of the program; what JAX compiles for itself is an activity only."""
    recorder, loop, function = CURRENT.recorder, compilation.loop, compilation.known
    if recorder is None or recorder.pid != UNPATCHED.getpid() or function is None:
        return
    call = id(function), loop and loop.index, compilation.step
    if _THREAD.written is not None and _THREAD.written[0] == call and _THREAD.written[1] != compilation.name:
        return  # a function that pmap needs for its results
    _THREAD.written = call, compilation.name
    known, name = function.kept, function.name
    is_first, changed = not known, None
    if known and compilation.leaves is not None:
        changed = signatures.changes(known, compilation.leaves)
    known.append(compilation.leaves or {})
    del known[: -signatures.KEPT]
    count = None
    if loop is not None and loop.index >= 0:
        key = loop.index, name
        count = _Counts.by_name[key] = _Counts.by_name.get(key, 0) + 1
        if count > 1:
            loop.retraces += 1
            loop.words[loop.base + RETRACES] = loop.retraces
            recorder.process_dir.event("retrace", work=loop.index, count=loop.retraces)
    _Counts.events += 1
    if _Counts.events > _MOST_EVENTS:
        return
    recorder.process_dir.event(
        "compile", work=None if count is None else loop.index, step=compilation.step, name=name, count=count,
        start_ns=compilation.start_ns, trace_ns=compilation.stages.get("trace"),
        lower_ns=compilation.stages.get("lower"), xla_ns=compilation.stages.get("xla"), cached=compilation.is_cached,
        first=is_first, changed=None if changed is None else changed[: signatures.MOST_CHANGES],
        changes=None if changed is None else len(changed), called_at=compilation.place,
    )  # fmt: skip


def _plain(name):
    """Return the name of a function as the program knows it."""
    name = name if isinstance(name, str) else str(name)
    for start in _WRITTEN_AROUND:
        if name.startswith(start) and name.endswith(")"):
            name = name[len(start) : -1]
    return name[:_LONGEST_NAME]
