"""The job's own calls of a framework's profiler: they come first, and the agent makes way."""

import sys

from tfprobe_agent.core import tracing
from tfprobe_agent.core.guard import failed, never_raise_noting
from tfprobe_agent.core.recorder import current_recorder
from tfprobe_agent.imports import place_of
from tfprobe_agent.interruptions import leave_traceback


def around_start(original):
    """Return the job's call that starts a session, with the agent's window closed before it."""

    def start(*args, **kwargs):
        calls, call = tracing.TRACING.job_calls, object()
        try:
            try:
                tracing.job_begins(call)
            except Exception:
                if tracing.TRACING.window is not None:
                    tracing.TRACING.window.session = None  # whatever went wrong, this ends the agent's profiler session
                failed("making way for the job's profiler")
            result = original(*args, **kwargs)
            _note_start(sys._getframe(1))
            return result
        except BaseException as error:
            leave_traceback(error)
            raise
        finally:
            calls.discard(call)

    return start


@never_raise_noting
def _note_start(frame):
    """Note which line of the job has started its profiler: while that is open no step can be traced."""
    file, line = place_of(frame)
    current_recorder().process_dir.event("profiling", file=file, line=line)


def around_start_server(original):
    """Return the job's call that starts a server of the profiler: from then on it may be asked at any time."""

    def start_server(*args, **kwargs):
        tracing.TRACING.job_server = True
        try:
            return original(*args, **kwargs)
        except BaseException as error:
            leave_traceback(error)
            raise

    return start_server
