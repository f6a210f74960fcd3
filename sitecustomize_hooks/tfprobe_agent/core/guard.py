"""How the agent handles its own errors: log them, disable itself, and never let the job see them.

There are three degrees: an error while writing activities, gaps and resource samples ends those; one while tracing ends
tracing; both leave counts and times alone. An error anywhere else disables the agent in this process.
"""

import functools
import os
import sys
import traceback

from tfprobe_agent.config import debug_file
from tfprobe_agent.interruptions import let_through
from tfprobe_agent.unpatched import UNPATCHED, write_all


class Log:
    """Appends lines to the files named so far: TFPROBE_DEBUG from the start, agent.log once it has a process folder."""

    def __init__(self):
        debug = debug_file()
        self.paths = [debug] if debug else []

    def line(self, text):
        """Write one line; failing to write the log is not worth an error."""
        record = "%d %d %s\n" % (UNPATCHED.unix_ns(), UNPATCHED.getpid(), text)
        for path in self.paths:
            try:
                _append(path, record.encode("utf-8", "replace"))
            except OSError:
                let_through()  # disk full, directory gone: the job matters more than the log

    def error(self, where):
        """Write the exception being handled, with its traceback."""
        self.line("error in %s: %s" % (where, "".join(traceback.format_exception(*sys.exc_info())).rstrip()))


def _append(path, data):
    descriptor = UNPATCHED.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        write_all(descriptor, data)
    finally:
        UNPATCHED.close(descriptor)


class State:
    """The agent's switches in this process.

    `disabled`: the agent does nothing any more. `tracing`: captures may be taken. `noting`: activities, gaps and
    resource samples may be written. `leaving`: the process ends, no capture is begun any more.
    """

    def __init__(self):
        self.disabled = False
        self.tracing = True
        self.leaving = False
        self.noting = True
        self.log = Log()
        self.on_failure = None  # called with (where, what, disabled); set by the recorder


STATE = State()


def failed(where, tracing_only=False, noting_only=False):
    """Answer the exception being handled by disabling the part that failed; an exception of the job goes on."""
    let_through()
    error = sys.exc_info()[1]
    try:
        if noting_only:
            STATE.noting = False
        elif tracing_only:
            STATE.tracing = False
        else:
            STATE.disabled = True
        STATE.log.error(where)
        if STATE.on_failure is not None:
            STATE.on_failure(where, "%s: %s" % (type(error).__name__, error), STATE.disabled)
    except Exception:
        let_through()
        STATE.disabled = True  # even the report failed: say nothing more


def never_raise(function):
    """Make a function of the agent disable the agent on its own errors; it then returns None."""

    @functools.wraps(function)
    def guarded(*args, **kwargs):
        if STATE.disabled:
            return None
        try:
            return function(*args, **kwargs)
        except Exception:
            return failed(function.__name__)

    return guarded


def never_raise_tracing(function):
    """Like `never_raise`, for functions without which counting can go on."""

    @functools.wraps(function)
    def guarded(*args, **kwargs):
        if STATE.disabled or not STATE.tracing:
            return None
        try:
            return function(*args, **kwargs)
        except Exception:
            return failed(function.__name__, tracing_only=True)

    return guarded


def never_raise_noting(function):
    """Like `never_raise`, for notes besides the steps: activities, gaps, resource samples."""

    @functools.wraps(function)
    def guarded(*args, **kwargs):
        if STATE.disabled or not STATE.noting:
            return None
        try:
            return function(*args, **kwargs)
        except Exception:
            return failed(function.__name__, noting_only=True)

    return guarded
