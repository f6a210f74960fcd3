"""What happens when the agent itself fails: log it, step aside, and never let the job see it.

Three depths: an error while noting activities, gaps and pulses stops those, one while sampling stops sampling; both
leave counting and timing alone. An error anywhere else stops the agent in this process.
"""

import functools
import signal
import sys

from .log import Log


class State:
    """The agent's switches in this process. `aside`: do nothing any more. `sampling`: captures may be taken.

    `noting`: activities, gaps and pulses may be written. `leaving`: the process ends, no capture is begun any more.
    """

    def __init__(self):
        self.aside = False
        self.sampling = True
        self.leaving = False
        self.noting = True
        self.log = Log()
        self.on_failure = None  # called with (where, what, aside); set by the recorder


STATE = State()


def failed(where, sampling_only=False, noting_only=False):
    """Answer the exception being handled; re-raises it only if a signal handler of the job raised it, not we."""
    error = sys.exc_info()[1]
    try:
        is_theirs = _raised_by_signal_handler(error)
    except Exception:
        is_theirs = False
    if is_theirs:
        del error  # with its traceback it would hold this frame, and this frame it
        raise
    try:
        if noting_only:
            STATE.noting = False
        elif sampling_only:
            STATE.sampling = False
        else:
            STATE.aside = True
        STATE.log.error(where)
        if STATE.on_failure is not None:
            STATE.on_failure(where, "%s: %s" % (type(error).__name__, error), STATE.aside)
    except Exception:
        STATE.aside = True  # even telling went wrong; silence is all that is left


def never_raise(function):
    """Make a function of ours answer its own errors by stepping aside; it then returns None."""

    @functools.wraps(function)
    def guarded(*args, **kwargs):
        if STATE.aside:
            return None
        try:
            return function(*args, **kwargs)
        except Exception:
            return failed(function.__name__)

    return guarded


def never_raise_sampling(function):
    """Like `never_raise`, for functions without which counting can go on."""

    @functools.wraps(function)
    def guarded(*args, **kwargs):
        if STATE.aside or not STATE.sampling:
            return None
        try:
            return function(*args, **kwargs)
        except Exception:
            return failed(function.__name__, sampling_only=True)

    return guarded


def never_raise_noting(function):
    """Like `never_raise`, for notes beside the steps: activities, pulses."""

    @functools.wraps(function)
    def guarded(*args, **kwargs):
        if STATE.aside or not STATE.noting:
            return None
        try:
            return function(*args, **kwargs)
        except Exception:
            return failed(function.__name__, noting_only=True)

    return guarded


def _raised_by_signal_handler(error):
    """Tell whether a signal handler of the job runs in the traceback: a time-out of theirs, not an error of ours."""
    codes = {_code_of(signal.getsignal(number)) for number in range(1, signal.NSIG)}
    frame = error.__traceback__
    while frame is not None:
        if frame.tb_frame.f_code in codes:
            return True
        frame = frame.tb_next
    return False


def _code_of(handler):
    """Return the code of a signal handler, be it a function, a method, a functools.partial or an object."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    if callable(handler) and not hasattr(handler, "__code__"):
        handler = type(handler).__call__
    return getattr(handler, "__code__", None)
