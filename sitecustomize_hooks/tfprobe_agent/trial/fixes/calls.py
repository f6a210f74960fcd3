"""Replace a function of the job's libraries, find arguments of its calls, and tell who calls it."""

import functools
import inspect
import sys
from os.path import dirname, join

from tfprobe_agent.core.guard import STATE
from tfprobe_agent.imports import is_library
from tfprobe_agent.interruptions import let_through


def replace(owner, name, around):
    """Replace a function of a module, or a method that a class itself defines, by `around(original)`.

    Return whether there was one. Unlike `patching` this leaves no mark: the step wrappers are put around it.
    """
    original = vars(owner).get(name)
    if not callable(original) or isinstance(original, type):
        return False
    setattr(owner, name, functools.update_wrapper(around(original), original))
    return True


def after_init(cls, look):
    """Call `look` with each new instance of a class. It must not raise."""

    def around(original):
        def initialize(self, *args, **kwargs):
            original(self, *args, **kwargs)
            look(self)

        return initialize

    return replace(cls, "__init__", around)


def without_errors(note, function):
    """Return the function such that an error of its own ends up in the note, not in the job; it then returns None."""

    @functools.wraps(function)
    def guarded(*args, **kwargs):
        try:
            return function(*args, **kwargs)
        except Exception as error:
            let_through()
            STATE.log.error("fix %s" % note.fix)
            note.failed("%s: %s" % (type(error).__name__, error))
            return None

    return guarded


class Arguments:
    """The arguments of calls of a function, by name; `self` is the first argument of a method."""

    def __init__(self, function):
        self.names = list(inspect.signature(function).parameters)

    def get(self, name, args, kwargs, default=None):
        """Return an argument of a call, or the default."""
        if name in kwargs:
            return kwargs[name]
        index = self.names.index(name) if name in self.names else len(args)
        return args[index] if index < len(args) else default

    def put(self, name, value, args, kwargs):
        """Return the arguments of a call with one of them replaced."""
        index = self.names.index(name) if name in self.names else len(args)
        if name not in kwargs and index < len(args):
            return args[:index] + (value,) + args[index + 1 :], kwargs
        return args, dict(kwargs, **{name: value})


def is_called_by_job():
    """Return whether the function that called the caller of this is the job's own code."""
    frame = sys._getframe(2)  # may be a wrapper of the agent
    while frame.f_back is not None and is_of_agent(frame.f_code):
        frame = frame.f_back
    return not is_library(frame.f_code.co_filename)


def is_of_agent(code):
    """Return whether code is the agent's own."""
    return code.co_filename.startswith(_AGENT)


def is_of_job(function):
    """Return whether a function is written in the job's own code."""
    code = getattr(inspect.unwrap(function), "__code__", None) if callable(function) else None
    return code is not None and not is_library(code.co_filename)


_AGENT = join(dirname(is_library.__code__.co_filename), "")
