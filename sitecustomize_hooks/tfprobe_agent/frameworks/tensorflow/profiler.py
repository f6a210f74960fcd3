"""Profiler windows: one step of TensorFlow 2 recorded as an XSpace, given up when the job wants the profiler."""

import os
import re
import sys
import threading

from tfprobe_agent import patching
from tfprobe_agent.config import profiling_disabled
from tfprobe_agent.core import tracing
from tfprobe_agent.core.process_dir import WINDOW, remove_tree, tensorflow_version
from tfprobe_agent.core.recorder import current_recorder
from tfprobe_agent.core.step_wrapper import open_window
from tfprobe_agent.core.threads import THREAD
from tfprobe_agent.frameworks.job_profiler import around_start, around_start_server
from tfprobe_agent.unpatched import UNPATCHED

from . import graphs
from .settings import TensorFlowStep

_PROFILER = "tensorflow.python.profiler.profiler_v2"
_FORMER_PROFILER = "tensorflow.python.eager.profiler"
_CONTEXT = "tensorflow.python.eager.context"
# TensorFlow's own defaults: host level 2, device level 1, no Python. If written out, 2.21 warns of each on stderr.
_OPTIONS = {}
# From this version on, ending a session may crash a process that takes part in a cluster ("free(): invalid size" where
# the recorder pairs activities that began and ended in different threads). Seen in every second job of 20 sessions in
# 2.18, 2.20 and 2.21; in none in 2.12, 2.15 and 2.16.
_CRASHES_CLUSTERS = (2, 17)


def job_holds_profiler():
    """Return whether one of TensorFlow's Python profiler modules that are loaded has a session."""
    modules = [sys.modules.get(name) for name in (_PROFILER, _FORMER_PROFILER)]
    return any([getattr(module, "_profiler", None) is not None for module in modules])


def patch(module):
    """Give precedence to the job's own profiler calls; in profiler_v2 and its TensorFlow 1 predecessor."""
    patching.patch_call(module, "start", around_start)
    patching.patch_call(module, "start_server", around_start_server)
    patching.patch_call(module, "start_profiler_server", around_start_server)


def trace(loop, why, original, args, kwargs):
    """Open a window around a call of a method, or decline."""
    return open_window(loop, Window(original, args, kwargs, args[0]))


def trace_function(loop, why, original, args, kwargs):
    """Open a window around a call of a function that is no tf.function itself, or decline."""
    return open_window(loop, Window(original, args, kwargs, None))


def open_eager(loop):
    """Open a window that no call surrounds (an eager step lies between two marks), or decline."""
    return open_window(loop, Window(None, None, None, None))


# An eager step that lasts longer gives way to others that are to be traced.
STALE_NS = 2 * 1000 * 1000 * 1000


class Window(TensorFlowStep, tracing.Window):
    """A window of TensorFlow's profiler."""

    def __init__(self, call, args, kwargs, function):
        tracing.Window.__init__(self, call, args, kwargs)
        self.function = function
        self.directory = None
        self.opened_ns = UNPATCHED.monotonic_ns()

    def declines(self):
        module = sys.modules.get(_PROFILER)
        if module is None or current_recorder().config.trace_level == "software":
            return "no profiler for this kind of step in this TensorFlow" if module is None else "trace level software"
        if profiling_disabled():
            return "TF_DISABLE_PROFILING is set"
        if tracing.TRACING.job_server:
            return "the job runs a profiler server"
        if _crashes_here():
            if current_recorder().process_dir.devices is None:
                graphs.note_devices(
                    current_recorder(), None
                )  # no capture will: its place in the cluster is known by now
            return "TensorFlow %s crashes processes of a cluster when it profiles them" % tensorflow_version()
        return None

    def open(self):
        declined = tracing.Window.open(self)
        if declined is None:
            THREAD.current.collecting = [] if self.function is None else [self.function]
        return declined

    def start(self):
        module, locked = sys.modules[_PROFILER], []
        try:
            # One call of a C function, so that no exception of the job comes between the lock and our knowing of it:
            # TensorFlow's own lock would stay locked.
            locked.extend(map(module._profiler_lock.acquire, (False,)))
            if tracing.job_holds_profiler() or not locked[0] or module._profiler is not None:
                return "the job is profiling"
            self.directory = current_recorder().process_dir.path("captures", WINDOW + str(threading.get_ident()))
            self.session = session = module._pywrap_profiler.ProfilerSession()
            try:
                session.start(self.directory, dict(_OPTIONS))
            except BaseException as error:
                self.session = None
                if type(error).__name__ != "AlreadyExistsError":
                    raise
                return "a profiler session is open in this process"
            tracing.TRACING.window = self
            return None
        finally:
            if True in locked:
                module._profiler_lock.release()

    def finish(self, loop, step, result):
        functions, THREAD.current.collecting = THREAD.current.collecting or (), None
        try:
            wait_for_accelerators()
            session = self.take_session()
            if session is None:
                return None
            name = "%06d-%s-%d.xplane.pb" % (step, loop.kind, loop.index)
            size = self._export(session, name)
        finally:
            self.close()
        recorder = current_recorder()
        graph = graphs.write_functions(recorder, functions)
        graphs.write_code_maps(recorder)
        if recorder.process_dir.devices is None:
            graphs.note_devices(recorder, None)
        return name, size, graph

    def abandon(self):
        THREAD.current.collecting = None
        tracing.Window.abandon(self)

    def is_stale(self):
        """Return whether nothing may ever end this window: an eager step that takes too long, or whose loop is over."""
        return self.call is None and UNPATCHED.monotonic_ns() - self.opened_ns > STALE_NS

    def _export(self, session, name):
        """Let TensorFlow write its files and keep the XSpace; return its size in bytes."""
        try:
            return self._keep(session, name)
        except BaseException:
            if UNPATCHED.isdir(self.directory):
                remove_tree(self.directory)  # the next window would take what is left of this one for its own
            raise

    def _keep(self, session, name):
        session.export_to_tb()
        capture = current_recorder().process_dir.path("captures", name)
        size = 0
        for path in self._written():
            if path.endswith(".xplane.pb"):
                size = UNPATCHED.stat(path).st_size
                UNPATCHED.rename(path, capture)
            else:
                UNPATCHED.unlink(path)
        if not size:
            raise OSError("TensorFlow's profiler wrote no XSpace below %s" % self.directory)
        return size

    def _written(self):
        """Yield the files of this window, then remove their directory.

        Those above it stay until the process ends: creating them again would cost as much as a small trace.
        """
        for name in UNPATCHED.listdir(self.directory):
            if name != "plugins":
                yield os.path.join(self.directory, name)
        windows = os.path.join(self.directory, "plugins", "profile")
        for window in UNPATCHED.listdir(windows):
            window = os.path.join(windows, window)
            for name in UNPATCHED.listdir(window):
                yield os.path.join(window, name)
            UNPATCHED.rmdir(window)


def _crashes_here():
    """Return whether this process belongs to a cluster and this TensorFlow's profiler would crash it."""
    context = getattr(sys.modules.get(_CONTEXT), "_context", None)
    if getattr(context, "_collective_ops_server_def", None) is None and getattr(context, "_server_def", None) is None:
        return False
    numbers = re.match(r"(\d+)\.(\d+)", tensorflow_version() or "")
    return numbers is None or tuple(map(int, numbers.groups())) >= _CRASHES_CLUSTERS


def wait_for_accelerators():
    """Wait until accelerators have finished the step: calls return before kernels end. Does nothing on a CPU."""
    context = sys.modules[_CONTEXT]._context
    if context is None or not getattr(context, "_initialized", False):
        return
    devices = [device.name for device in context._logical_devices or () if device.device_type not in ("CPU", "XLA_CPU")]
    tensorflow = sys.modules["tensorflow"]
    for device in devices:
        with tensorflow.device(device):
            tensorflow.zeros([]).numpy()
