"""Windows of PyTorch's profiler: one step recorded as a Kineto trace, given up when the job wants the profiler.

A step between two marks of an optimizer has no call around it: its window opens at the first mark and ends at the
second. None may come, after the last step of a loop, so a window that has become too old is given up where the program
next begins an evaluation, takes a batch or collects garbage.
"""

import gc
import os
import sys
import threading
from itertools import cycle, repeat, starmap

from tfprobe_agent import patching
from tfprobe_agent.config import foreign_profiler, kineto_daemon, kineto_log_level
from tfprobe_agent.core import gaps, tracing
from tfprobe_agent.core.guard import failed, never_raise_tracing
from tfprobe_agent.core.recorder import current_recorder
from tfprobe_agent.core.resource_samples import collection_callback
from tfprobe_agent.core.step_wrapper import open_window
from tfprobe_agent.frameworks.job_profiler import around_start
from tfprobe_agent.interruptions import leave_traceback, let_through
from tfprobe_agent.unpatched import UNPATCHED

from . import annotations, event_tree, module_paths, settings
from .thread_state import torch_thread

_PROFILER = "torch.autograd.profiler"
_LEGACY_PROFILER = "torch.autograd.profiler_legacy"
_PROTON = "triton.profiler"
# The classes by which a job opens a session of the profiler, and their methods.
_SESSIONS = (
    (_PROFILER, "profile", ("_prepare_trace", "__enter__")),
    (_PROFILER, "emit_itt", ("__enter__",)),
    (_PROFILER, "emit_nvtx", ("__enter__",)),
    (_LEGACY_PROFILER, "profile", ("__enter__",)),
)
# The log level of libkineto, a static member of a C++ class, and a level at which it writes nothing.
_KINETO, _KINETO_LEVEL, _KINETO_SILENT = "libtorch_cpu.so", "_ZN9libkineto6Logger14severityLevel_E", 99
# The log level of PyTorch's core, and the one of errors: while a session records memory, each thousandth tensor that is
# older and is freed makes a warning.
_C10, _C10_LEVEL, _C10_SILENT = "libc10.so", "FLAGS_caffe2_log_level", 2
# A window between two marks is too old after this time and this many usual steps.
STALE_NS = 100 * 1000 * 1000
STALE_STEPS = 4


class _Sessions:
    """The sessions of this process; created anew after a fork."""

    def __init__(self):
        self.open = set()  # those of the job that are prepared or open, by the ids of their objects
        self.own = None  # the thread in which the agent has one, from before it begins until it has ended
        self.had_first = False


SESSIONS = _Sessions()


class _Import:
    """Which thread has imported PyTorch."""

    thread = None


def reset():
    """Forget everything, in a forked child."""
    SESSIONS.__init__()


def patch(_module):
    """Give precedence to the job's own profiler in PyTorch, which has just been imported."""
    _Import.thread = threading.get_ident()
    for name, cls, methods in _SESSIONS:
        cls = getattr(sys.modules.get(name), cls, None)
        for method in methods:
            if cls is not None:
                patching.patch_call(cls, method, _around_begin)
        if cls is not None:
            patching.patch_call(cls, "__exit__", _around_end)


def _around_begin(original):
    """Return what prepares or opens a session of the job, with the agent's window ended before it.

    From the preparation on, libkineto belongs to the job: a window opened then would end the process.
    """
    starting = around_start(original)

    def begin(self, *args, **kwargs):
        try:
            is_first = id(self) not in SESSIONS.open and vars(self).get("enabled", True)
            if is_first:
                SESSIONS.open.add(id(self))
                SESSIONS.had_first = True
        except Exception:
            is_first = False
            failed("before the job's profiler")
        try:
            return (starting if is_first else original)(self, *args, **kwargs)
        except BaseException as error:
            if is_first and not hasattr(type(self), "_prepare_trace"):
                SESSIONS.open.discard(id(self))  # it did not begin; one that libkineto prepares may have
            leave_traceback(error)
            raise

    return begin


def _around_end(original):
    """Return what ends a session of the job."""

    def end(self, *args, **kwargs):
        try:
            return original(self, *args, **kwargs)
        except BaseException as error:
            leave_traceback(error)
            raise
        finally:
            SESSIONS.open.discard(id(self))

    return end


def job_holds_profiler():
    """Return whether the job has prepared or opened a session, in this thread or in another."""
    return len(SESSIONS.open) > 0 or _is_enabled()


def trace(loop, why, original, args, kwargs):
    """Open a window around a call, or decline."""
    return open_window(loop, Window(original, args, kwargs))


def trace_marked(loop, why, original, args, kwargs):
    """Open a window that no call surrounds (a step lies between two marks), or decline."""
    return open_window(loop, MarkedWindow(loop))


class Window(tracing.Window):
    """A window of PyTorch's profiler around a call."""

    spared = ()  # how the names of annotations begin that may be open when it ends

    def __init__(self, call, args, kwargs):
        tracing.Window.__init__(self, call, args, kwargs)
        self._warnings = _Level(_C10, _C10_LEVEL, _C10_SILENT)

    def declines(self):
        if current_recorder().config.trace_level == "software":
            return "trace level software"
        if foreign_profiler() or _PROTON in sys.modules:
            return "another profiler is attached to this process"
        if kineto_daemon():
            return "KINETO_USE_DAEMON is set: a daemon may start a trace at any time"
        if not _is_known():
            return "no profiler that is known in this version of PyTorch"
        if not SESSIONS.had_first and self.thread != _Import.thread:
            # In another thread libkineto writes to stderr that it was set up in a thread that did not load it.
            return "the first trace of a process is taken in the thread that has imported PyTorch"
        return None

    def start(self):
        if tracing.job_holds_profiler():
            return "the job is profiling"
        session = sys.modules[_PROFILER].profile(**_options())
        self._wait_for_accelerators()
        SESSIONS.own, SESSIONS.had_first = self.thread, True
        self._warnings.stop()
        with _Silence() as silence:
            _original(session, "_prepare_trace")(session)
            silence.go_on()  # the first preparation sets up libkineto, and its log level
            _original(session, "_start_trace")(session)
        self.session = session
        tracing.TRACING.window = self
        return None

    def close(self):
        end_own()
        self._warnings.go_on()
        tracing.Window.close(self)

    def surrender(self):
        """End the window for the job's sake; only the thread that has opened it can."""
        return self.thread == threading.get_ident() and tracing.Window.surrender(self)

    def discard(self, session):
        found = _ended(session)
        if found is not None:
            self.spared = ()  # some session of the job may be open when an optimizer's step ends
            self._save(found, None, None)

    def _save(self, found, name, known):
        """Let libkineto write a capture, under a temporary name first; return its size in bytes.

        Calls that are `known` beside are added. Without a name it is removed again: it was only written to learn which
        annotations are open.
        """
        captures = current_recorder().process_dir.path("captures")
        temporary = os.path.join(captures, ".tmp-%d.kineto.json" % threading.get_ident())
        try:
            with _Silence():
                found.save(temporary)
            annotations.let_go_of_open(temporary, self.spared)
            if known is not None and known.calls:
                event_tree.add_calls(temporary, known)
            size = UNPATCHED.stat(temporary).st_size
            UNPATCHED.chmod(temporary, 0o600)
            if name is not None:
                UNPATCHED.rename(temporary, os.path.join(captures, name))
        finally:
            if UNPATCHED.isfile(temporary):
                UNPATCHED.unlink(temporary)
        return size

    def _wait_for_accelerators(self):
        """Wait until they have finished what is queued: calls return before kernels end. Does nothing on a CPU."""
        if is_cuda_in_use():
            began_ns = UNPATCHED.monotonic_ns()
            sys.modules["torch"].cuda.synchronize()
            self.waited_ns += UNPATCHED.monotonic_ns() - began_ns

    def finish(self, loop, step, result):
        # What is read of a session are tens of thousands of objects: they would make the job collect garbage.
        is_collecting = gc.isenabled()
        gc.disable()
        try:
            return self._finish(loop, step)
        finally:
            if is_collecting:
                gc.enable()

    def _finish(self, loop, step):
        try:
            self.leave_out_compiling(loop)
            self._wait_for_accelerators()
            self.batch_ns = torch_thread().traced_batch_ns()
            session = self.take_session()
            if session is None:
                return None
            found = _ended(session)
            if found is None:
                return None
            name = "%06d-%s-%d.kineto.json" % (step, loop.kind, loop.index)
            known = event_tree.search(found)
            size = self._save(found, name, known)
        finally:
            self.close()
        return name, size, None if known is None else module_paths.write(current_recorder(), known.modules)

    def write_settings(self):
        settings.write()


class MarkedWindow(Window):
    """A window between two marks: whoever finds it stale ends it, because no mark may follow.

    The second mark lies in PyTorch's own annotation of the optimizer's step, which ends while no session is open.
    """

    spared = (annotations.OF_OPTIMIZERS,)

    def __init__(self, loop):
        Window.__init__(self, None, (), {})
        self.loop = loop
        self.stale_ns = 0
        self.on_collection = None  # what a garbage collection calls meanwhile

    def open(self):
        declined = Window.open(self)
        if declined is None:
            self.stale_ns = UNPATCHED.monotonic_ns() + STALE_NS + STALE_STEPS * (self.loop.pace_ns() or 0)
            self.on_collection = _collection_callback()
            if self.on_collection is not None:
                gc.callbacks.append(self.on_collection)
        return declined

    def is_stale(self):
        # only the thread that has opened a session can end it
        return self.thread == threading.get_ident() and UNPATCHED.monotonic_ns() > self.stale_ns

    def surrender(self):
        # Nothing is called in it that would close it, and behind the end of the program no mark comes.
        is_own = Window.surrender(self)
        if is_own:
            self.close()
        return is_own

    def close(self):
        if self.on_collection is not None and self.on_collection in gc.callbacks:
            gc.callbacks.remove(self.on_collection)
        Window.close(self)


def _collection_callback():
    """Return what has a stale window of the calling thread ended when it is called by a garbage collection, or None.

    Until Python 3.11 one runs wherever an object is made, such as the frame with which the interpreter is about to call
    PyTorch's function for `with_stack`. If the session ended there, that function would be called with memory that has
    been freed, and end the process. So the interpreter is asked to end it between two instructions, by functions of C
    alone: at those of a function of Python it would do so at once. It only does that in the main thread; windows of
    other threads wait for what else ends them.
    """
    if sys.version_info >= (3, 12):  # collections run between two instructions
        return _collected
    ctypes = sys.modules.get("ctypes")
    if ctypes is None or threading.get_ident() != threading.main_thread().ident:
        return None
    if _Soon.ask is None:
        call = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
        _Soon.ask = ctypes.PYFUNCTYPE(ctypes.c_int, call, ctypes.c_void_p)(("Py_AddPendingCall", ctypes.pythonapi))
        _Soon.arguments = call(_between_instructions), None
    # A collection calls at its start and at its end, where alone the interpreter is asked: between the two, finalizers
    # and callbacks of the job run instructions of their own.
    turns = cycle((repeat(0), starmap(_Soon.ask, repeat(_Soon.arguments))))
    return collection_callback(map(next, turns))


class _Soon:
    """Asks the interpreter to look at the window of the main thread; kept, since it may do so at any time."""

    ask = arguments = None


def _between_instructions(_argument):
    _collected("stop", None)
    return 0


@never_raise_tracing
def _collected(phase, _info):
    if phase == "stop":
        end_window(torch_thread())


class _ThreadEnd:
    """Referenced by the state of a thread alone, so it is freed when the thread ends, and ends the window then.

    A session that is left open in a thread that has ended would end the process at its exit.
    """

    __slots__ = ("_window",)

    def __init__(self, window):
        self._window = window

    def __del__(self):
        try:
            self._window.abandon()
        except Exception:
            failed("ending a window with its thread", tracing_only=True)


def end_with_thread(window):
    """Return what ends an open window when the calling thread ends; the exit hooks do that for the main thread."""
    return _ThreadEnd(window) if threading.get_ident() != threading.main_thread().ident else None


def end_window(thread, why=None):
    """End the window between marks of the calling thread, if there is one: stale, or because `why` came before."""
    try:
        window = thread.window
        if window is not None and (why is not None or window.is_stale()):
            thread.window = None
            window.abandon()
            current_recorder().declined(window.loop, why or "the step took too long, or was the last of its loop")
    except Exception:
        failed("ending a stale window", tracing_only=True)


def before_fork():
    """End the window of the calling thread: a forked child would go on recording, and never stop."""
    try:
        window = tracing.TRACING.window
        if isinstance(window, Window) and window.surrender():
            thread = torch_thread()
            if thread.window is window:
                thread.window = None
                window.close()
    except Exception:
        failed("before a fork", tracing_only=True)


def _is_known():
    """Return whether this version of PyTorch has what a window calls; some of it has private names."""
    session = getattr(sys.modules.get(_PROFILER), "profile", None)
    names = ("_prepare_trace", "_start_trace", "__exit__")
    has_functions = all([hasattr(_autograd(), name) for name in ("_profiler_enabled", "_disable_profiler")])
    return has_functions and all([hasattr(session, name) for name in names])


def _autograd():
    return getattr(sys.modules["torch"]._C, "_autograd", None)


def _options():
    """Return the arguments of a session."""
    options = {"use_kineto": True, "record_shapes": True, "profile_memory": True}
    # The profiler's own way to see Python replaces the profile function of the thread.
    options["with_stack"] = not gaps.somebody_watches()
    if is_cuda_in_use():
        options["use_device"] = "cuda"
    return options


def is_cuda_in_use():
    """Return whether the job has initialized CUDA, or ROCm, which goes by the same name."""
    cuda = getattr(sys.modules["torch"], "cuda", None)
    return cuda is not None and bool(cuda.is_initialized())


def _original(session, name):
    """Return a method of the profiler as PyTorch defines it."""
    method = getattr(type(session), name)
    return method.__wrapped__ if patching.is_patched(method) else method


def _ended(session):
    """End a session and return what it has recorded; None if it has ended already."""
    with _Silence():
        if _is_enabled():
            _original(session, "__exit__")(session, None, None, None)
    SESSIONS.own = None
    return session.kineto_results


def end_own():
    """End a session of this thread that an exception of the job has kept from being known, or from being ended."""
    if SESSIONS.own == threading.get_ident():
        if _is_enabled():
            with _Silence():
                _autograd()._disable_profiler()
        SESSIONS.own = None


def _is_enabled():
    """Return whether the calling thread has a session of the profiler."""
    is_enabled = getattr(_autograd(), "_profiler_enabled", None)
    return is_enabled is not None and is_enabled()


# The numbers that were looked for, by name.
_NUMBERS = {}


class _Level:
    """The level from which on a library of PyTorch writes to stderr, a number of C, and what to set it to meanwhile.

    It is put back afterwards, so that what the job itself calls writes what it would have written.
    """

    def __init__(self, library, name, silent):
        if name not in _NUMBERS:
            _NUMBERS[name] = _number(library, name)
        self._number = _NUMBERS[name]
        self._silent = silent
        self._before = None

    def stop(self):
        """Let the library write nothing from now on."""
        if self._number is not None and self._number.value != self._silent:
            self._before, self._number.value = self._number.value, self._silent

    def go_on(self):
        """Let the library write again what it would write otherwise."""
        if self._before is not None and self._number.value == self._silent:
            self._number.value, self._before = self._before, None


class _Silence:
    """Keeps libkineto from writing to stderr: from 2.13 on it writes two lines for each session."""

    def __init__(self):
        self._level = _Level(_KINETO, _KINETO_LEVEL, _KINETO_SILENT)

    def __enter__(self):
        if kineto_log_level() is None:  # else the job has chosen
            self._level.stop()
        return self

    go_on = __enter__

    def __exit__(self, *_error):
        self._level.go_on()


def _number(library, name):
    """Return a number of a library that is loaded, by the name of its symbol; None where it has none."""
    ctypes = sys.modules.get("ctypes")
    path = os.path.join(os.path.dirname(sys.modules["torch"].__file__), "lib", library)
    try:
        return ctypes.c_int.in_dll(ctypes.CDLL(path, mode=os.RTLD_NOLOAD | os.RTLD_LAZY), name)
    except (OSError, ValueError, AttributeError):
        let_through()
        return None
