"""A step being traced, and who may use the profiler right now.

All frameworks share one lock: TensorFlow and XLA allow one profiler session per process, and so does CUPTI below them.
A traced step that meets another session fails after it ran. `Session.run` with FULL_TRACE opens one inside the step and
raises AlreadyExists if there is another, although the step's updates are already applied. So a conflict is prevented
before the step, not handled after it. SOFTWARE_TRACE opens none and is safe at any time.
"""

import threading

from tfprobe_agent import config
from tfprobe_agent.unpatched import UNPATCHED

from . import framework

# How long a profiler call of the job waits for a traced step to end, in seconds. A longer step may be waiting for that
# very call; then the job gets TensorFlow's own answer.
USER_WAIT_S = 5.0
# Interval at which waiting threads look, in seconds.
_LOOK_S = 0.001
_PROFILER = "profiler"


class _Tracing:
    """The state of this process; created anew after a fork."""

    def __init__(self):
        self.holders = {}  # under _PROFILER the holder of the profiler while a session of the agent may be open
        self.giving_back = threading.Lock()
        self.window = None  # the open profiler window, if any
        self.job_calls = set()  # calls of the job that are tracing or starting a profiler right now
        self.job_server = False  # the job serves remote captures, which may begin at any time


TRACING = _Tracing()


def reset():
    """Forget everything, in a forked child."""
    TRACING.__init__()


def job_holds_profiler():
    """Return whether the job itself has, or is about to have, a profiler session."""
    return len(TRACING.job_calls) > 0 or any([known.job_holds_profiler() for known in list(framework.LOADED)])


def take(holder):
    """Try to take the profiler; return whether it is the holder's (then call `give_back`).

    This is one call of a C function, so an exception that the job throws in after it finds the holder there.
    """
    return TRACING.holders.setdefault(_PROFILER, holder) is holder


def give_back(holder):
    """Give the profiler back, if the holder has it."""
    with TRACING.giving_back:
        if TRACING.holders.get(_PROFILER) is holder:
            del TRACING.holders[_PROFILER]


def holder():
    """Return the holder of the profiler, or None."""
    return TRACING.holders.get(_PROFILER)


def is_given_back(patience_s):
    """Wait until nobody has the profiler; return False if somebody still has."""
    until_ns = UNPATCHED.monotonic_ns() + int(patience_s * 1e9)
    while holder() is not None:
        if UNPATCHED.monotonic_ns() >= until_ns:
            return False
        UNPATCHED.sleep(_LOOK_S)
    return True


def take_full(holder):
    """Try to take the profiler for one step that is to be traced on all devices."""
    if config.profiling_disabled() or config.foreign_profiler() or TRACING.job_server:
        return False
    if not take(holder):
        return False
    if job_holds_profiler():
        give_back(holder)
        return False
    return True


def compiled(duration_ns, of_any_thread=False):
    """Note how long the calling thread has compiled: in a traced step, this is the job's own time."""
    window = TRACING.window
    if window is not None and (of_any_thread or window.thread == threading.get_ident()):
        window.compiled_ns += duration_ns


def job_begins(call):
    """Make way for a profiler call of the job: close the window, or wait for the traced step to end.

    `call` is any object; discard it from `job_calls` when the call has returned.
    """
    calls = TRACING.job_calls
    try:
        calls.add(call)
        window = TRACING.window
        if window is None or not window.surrender():
            is_given_back(USER_WAIT_S)
    except BaseException:
        calls.discard(call)
        raise


class TracedStep:
    """A step being traced: what to call instead, and how to end. Subclasses know their framework."""

    level = "full"
    watch = None  # why the gap after it is watched, for a step that is not traced

    def __init__(self, call, args, kwargs):
        self.call = call
        self.args = args
        self.kwargs = kwargs
        self.why = None
        self.request = None  # the sequence number of the trace request it is for, if any
        self.called_at = "", 0  # file and line of the job
        self.opening_ns = 0
        self.ended_ns = None  # when its results were there, if its call only queued it
        self.why_lost = "the job took the profiler before the step ended"  # if that has happened
        self.waited_ns = 0  # for the job's own work, which the job would have waited for later
        self.clock_ns = 0  # unix time less monotonic time when the step began
        self.batch_ns = None  # how long taking a batch takes in steps that are not traced, if that is known
        self.thread = threading.get_ident()

    def sizes(self, result):
        """Return the bytes of what the step was fed and of what it returned, None where that is not known."""
        return None, None

    def write_settings(self):
        """Write the settings that the job's speed depends on; called once per process."""

    def finish(self, loop, step, result):
        """End the trace and store the capture; return (file name, bytes, graph fingerprint or None), or None."""
        raise NotImplementedError

    def abandon(self):
        """End the trace, if it has not ended, keeping nothing. May be called again."""
        raise NotImplementedError


class GapWatch(TracedStep):
    """A step that is not traced, whose gap is to be watched."""

    def __init__(self, watch, call, args, kwargs):
        TracedStep.__init__(self, call, args, kwargs)
        self.watch = watch

    def abandon(self):
        """Nothing has begun yet."""


class Window(TracedStep):
    """An open profiler session around a step. Whoever takes `session` first, the step's end or the job, ends it."""

    level = "window"

    def __init__(self, call, args, kwargs):
        TracedStep.__init__(self, call, args, kwargs)
        self.session = None
        self.compiled_ns = 0  # what the framework compiled meanwhile
        self._taking = threading.Lock()

    def open(self):
        """Take the profiler and start a session; return why not, or None when it runs."""
        declined = self.declines()
        if declined is not None:
            return declined
        if not take(self) and not self._reclaims():
            return "another step is being traced"
        declined = "an error"
        try:
            declined = self.start()
        finally:
            if declined is not None:
                self.abandon()
        return declined

    def declines(self):
        """Return why no session may be tried in this process, or None."""
        raise NotImplementedError

    def start(self):
        """Start a session; return why not, or None when it runs."""
        raise NotImplementedError

    def _reclaims(self):
        """Take the profiler from a window that is stale; return whether that succeeded."""
        window = TRACING.window
        if window is None or not window.is_stale():
            return False
        window.abandon()
        return take(self)

    def surrender(self):
        """End the window for the job's sake, keeping nothing; return whether it was open. Any thread may call this."""
        session = self.take_session()
        if session is not None:
            self.discard(session)
        return session is not None

    def take_session(self):
        """Return the session to whoever ends it, None if somebody has it already."""
        with self._taking:
            session, self.session = self.session, None
            return session

    def discard(self, session):
        """End a session whose trace nobody wants. TensorFlow's ends when it is freed."""

    def leave_out_compiling(self, loop):
        """Count what was compiled as the job's: what a step takes beyond the usual would else be the recording's."""
        usual_ns = loop.usual_ns()
        if usual_ns is not None:
            self.waited_ns += min(self.compiled_ns, max(0, loop.latest_ns() - usual_ns))

    def is_stale(self):
        """Return whether nothing may ever end this window."""
        return False

    def abandon(self):
        self.surrender()
        self.close()

    def close(self):
        """Give the profiler back, if it was not yet: a stale window is closed by the next one and ended later."""
        if TRACING.window is self:
            TRACING.window = None
        give_back(self)
