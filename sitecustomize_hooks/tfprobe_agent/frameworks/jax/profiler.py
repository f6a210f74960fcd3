"""Profiler windows of JAX: one step recorded as an XSpace, given up when the job wants the profiler.

A call only queues its step. So a window waits for the arguments before it opens, and for the result before it ends:
else it would show what came before, and nothing of the step. The job would have waited later; these waits are not
counted as the recording's. Nor is what JAX compiles in the step.
"""

import sys

from tfprobe_agent import patching
from tfprobe_agent.config import foreign_profiler
from tfprobe_agent.core import tracing
from tfprobe_agent.core.recorder import current_recorder
from tfprobe_agent.core.step_wrapper import open_window
from tfprobe_agent.frameworks import queued_steps
from tfprobe_agent.frameworks.job_profiler import around_start, around_start_server
from tfprobe_agent.interruptions import let_through
from tfprobe_agent.unpatched import UNPATCHED

from . import settings, waits

# Where jaxlib defines its profiler: from 0.6 on, and before.
_HOMES = ("jaxlib._profiler", "jaxlib.xla_extension.profiler", "jaxlib.xla_extension")
# Before this version of jaxlib each session imports TensorFlow where it is installed, and prints two lines.
_QUIET = (0, 6)
_HOST_LEVEL = 2
_PROFILER = "jax._src.profiler"


def patch(module):
    """Give precedence to the job's own profiler calls in jax._src.profiler; its class of sessions is from 0.12 on."""
    session = module.__dict__.get("ProfileSession")
    if session is not None:
        patching.patch_call(session, "start", around_start)
    else:
        patching.patch_call(module, "start_trace", around_start)
    patching.patch_call(module, "start_server", around_start_server)


def job_holds_profiler():
    """Return whether the job has an open session, or collects profiles for the compiler."""
    state = getattr(sys.modules.get(_PROFILER), "_profile_state", None)
    is_open = any([getattr(state, name, None) is not None for name in ("session", "profile_session")])
    return is_open or bool(settings.value("jax_enable_pgle"))


def trace(loop, why, original, args, kwargs):
    """Open a window around a call of a method, or decline."""
    return open_window(loop, Window(original, args, kwargs))


trace_function = trace


class Window(tracing.Window):
    """A window of JAX's profiler."""

    def declines(self):
        if current_recorder().config.trace_level == "software":
            return "trace level software"
        if tracing.TRACING.job_server:
            return "the job runs a profiler server"
        if foreign_profiler():
            return "another profiler is attached to this process"
        if _module() is None:
            return "no profiler in this version of jaxlib"
        if settings.jaxlib_version() < _QUIET:
            return "a profiler session of jaxlib before 0.6 prints to stderr"
        return None

    def start(self):
        if tracing.job_holds_profiler():
            return "the job is profiling"
        if not self._wait_for(self.arguments()):
            return "an argument of the step is an error"
        module = _module()
        options = module.ProfileOptions()
        options.host_tracer_level = _HOST_LEVEL
        options.python_tracer_level = 0
        options.enable_hlo_proto = True
        self.session = module.ProfilerSession(options)
        tracing.TRACING.window = self
        return None

    def arguments(self):
        """Return the arrays, or trees of them, from which the step computes."""
        return self.args, self.kwargs

    def results(self, result):
        """Return the arrays that the step computes."""
        return result

    def _wait_for(self, values, loop=None):
        """Wait until arrays are there; return False if they never will be. What is wrong with them is the job's."""
        began_ns = UNPATCHED.monotonic_ns()
        try:
            was_ready = waits.are_ready(values)
            waits.wait_for(values)
            queued_steps.waited(began_ns, was_ready, loop, is_ours=True)
            return True
        except Exception:
            let_through()
            return False
        finally:
            self.waited_ns += UNPATCHED.monotonic_ns() - began_ns

    def discard(self, session):
        _stopped(session)

    def finish(self, loop, step, result):
        try:
            self.leave_out_compiling(loop)
            if self._wait_for(self.results(result), loop):
                loop.drained_ns, self.ended_ns = loop.latest_ns(), loop.latest_end_ns()
            session = self.take_session()
            if session is None:
                return None
            data = _stopped(session)
        finally:
            self.close()
        if data is None:
            return None
        recorder = current_recorder()
        name = "%06d-%s-%d.xplane.pb" % (step, loop.kind, loop.index)
        size = recorder.process_dir.write_file(data, "captures", name)
        return name, size, None

    def write_settings(self):
        settings.write()


def _stopped(session):
    """End a session and return its XSpace; None if another session of this process keeps it from having one."""
    try:
        return session.stop()
    except Exception:
        let_through()
        return None


def _module():
    for name in _HOMES:
        module = sys.modules.get(name)
        if module is not None and hasattr(module, "ProfilerSession") and hasattr(module, "ProfileOptions"):
            return module
    return None
