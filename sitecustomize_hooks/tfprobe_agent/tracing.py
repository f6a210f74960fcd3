"""Who may use TensorFlow's one profiler right now. A traced step that meets another session fails after it ran.

TensorFlow allows one profiler session in a process. `Session.run` with FULL_TRACE opens one inside the step and raises
AlreadyExists when there is another, although the step's updates are already applied; so a conflict is prevented before
the step, never answered after it. SOFTWARE_TRACE opens none and is safe at any time.
"""

import sys
import threading

from . import config

# How long a profiler call of the job waits for a traced step of ours to end, in seconds. A step that lasts longer may
# be waiting for the very caller; then the job gets TensorFlow's own answer.
USER_WAIT_S = 5.0


class _Tracing:
    """The state of this process; made anew after a fork."""

    def __init__(self):
        self.lock = threading.Lock()  # held while a session of ours may be open
        self.window = None  # the open profiler window, if any
        self.job_profiling = 0  # calls of the job that are tracing or starting a profiler right now
        self.job_server = False  # the job serves remote captures, which may begin at any time


TRACING = _Tracing()


def reset():
    """Forget everything, in a forked child."""
    TRACING.__init__()


def profiler_modules():
    """Return those of TensorFlow's Python profiler modules that are loaded."""
    names = ("tensorflow.python.profiler.profiler_v2", "tensorflow.python.eager.profiler")
    return [sys.modules[name] for name in names if name in sys.modules]


def job_holds_profiler():
    """Tell whether the job itself has, or is about to have, a profiler session."""
    return TRACING.job_profiling > 0 or any(
        getattr(module, "_profiler", None) is not None for module in profiler_modules()
    )


def acquire_full():
    """Try to reserve the profiler for one step of ours; True if reserved (then call `release`)."""
    if config.profiling_disabled() or config.foreign_profiler() or TRACING.job_server:
        return False
    if not TRACING.lock.acquire(False):
        return False
    if job_holds_profiler():
        TRACING.lock.release()
        return False
    return True


def release():
    """Give the profiler back."""
    TRACING.lock.release()


def job_begins():
    """Make way for a profiler call of the job: close our window, or wait for our traced step to end.

    Call `job_ends` when the call of the job has returned, even if this raised.
    """
    TRACING.job_profiling += 1
    window = TRACING.window
    if window is not None and window.surrender():
        return
    if TRACING.lock.acquire(True, USER_WAIT_S):
        TRACING.lock.release()


def job_ends():
    """The profiler call of the job has returned."""
    TRACING.job_profiling = max(0, TRACING.job_profiling - 1)
