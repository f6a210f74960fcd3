"""What happens when the agent itself fails: log it, step aside, and never let the job see it.

Three depths: an error while noting activities, gaps and pulses stops those, one while sampling stops sampling; both
leave counting and timing alone. An error anywhere else stops the agent in this process.
"""

import functools
import sys

from .interruptions import let_through
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
    """Answer the exception being handled, by stepping aside; one of the job's goes through unanswered."""
    let_through()
    error = sys.exc_info()[1]
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
        let_through()
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
