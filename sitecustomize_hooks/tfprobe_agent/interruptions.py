"""Whose exception is it: caused by the agent's code, or thrown into it by the job?

The job throws by a signal handler that raises, or from another thread by PyThreadState_SetAsyncExc. Either may arrive
at any instruction of the agent and leaves a traceback of its frames. An exception of the job goes on unchanged,
whatever its class.
"""

import sys
from _functools import partial
from _operator import attrgetter
from _signal import NSIG, getsignal
from opcode import opmap

_RAISES = frozenset(opmap[name] for name in ("RAISE_VARARGS", "RERAISE") if name in opmap)
# Exceptions that the interpreter itself raises without arguments.
_SILENT = (MemoryError, StopIteration, StopAsyncIteration)
_TAKES_MORE_ARGUMENTS = 0x04  # co_flags: CO_VARARGS
_GONE = object()
# Read the way `type` and `BaseException` do: a class of the job may override attribute access.
_classes_of = type.__dict__["__mro__"].__get__
_arguments_of = BaseException.__dict__["args"].__get__


def let_through():
    """Re-raise the exception being handled if it is the job's; return if the agent's code caused it.

    Call it first in every `except` of the agent that does not raise.
    """
    error = sys.exc_info()[1]
    try:
        theirs = of_the_job(error)
    except (MemoryError, RecursionError):
        return  # too little memory or stack left to decide, which is likely what the handled error is about
    if theirs is None:
        return
    if theirs is error:
        del error, theirs  # the error's traceback would keep this frame alive, and the frame the error
        raise
    context = theirs.__context__
    try:
        raise theirs
    finally:
        theirs.__context__ = context
        del error, theirs


def leave_traceback(error):
    """Remove the frame that handles an exception from its traceback; `raise` must follow.

    This works from Python 3.11 on; earlier interpreters put the frame back.
    """
    error.__traceback__ = error.__traceback__.tb_next


def of_the_job(error):
    """Return the exception that the job threw: this one, one that called code has replaced by this one, or None.

    Only exceptions that arose below the frame that handles `error` count: the job may be handling another one already.
    Runs no code of the job, so nothing can fail here.
    """
    handling = error.__traceback__.tb_frame
    while error is not None and error.__traceback__ is not None:
        if not _is_below(error.__traceback__.tb_frame, handling):
            return None
        if not issubclass(type(error), Exception) or _was_thrown(error):
            return error
        error = error.__cause__ or error.__context__
    return None


def _is_below(frame, handling):
    while frame is not None and frame is not handling:
        frame = frame.f_back
    return frame is handling


def _was_thrown(error):
    entry = innermost = error.__traceback__
    while entry is not None:
        if _handles_signal(entry.tb_frame):
            return True
        innermost, entry = entry, entry.tb_next
    return _arrived_from_outside(error, innermost)


def _handles_signal(frame):
    """Return whether a function was called as a signal handler: it is one, or it has the interrupted frame as argument.

    Many handlers reset themselves, and many assign to their arguments or delete them, as style guides recommend for
    unused arguments.
    """
    number, interrupted = _last_arguments(frame)
    if interrupted is not None and interrupted is frame.f_back:
        return True
    if interrupted is _GONE and (number is _GONE or type(number) is int):
        return True
    return any([_code_of(getsignal(number)) is frame.f_code for number in range(1, NSIG)])


def _last_arguments(frame):
    code = frame.f_code
    values = frame.f_locals
    names = code.co_varnames[: code.co_argcount]
    arguments = [values.get(name, _GONE) for name in names]
    if code.co_flags & _TAKES_MORE_ARGUMENTS:
        arguments.extend(values.get(code.co_varnames[code.co_argcount + code.co_kwonlyargcount], ()))
    return arguments[-2:] if len(arguments) > 1 else (None, None)


def _code_of(handler):
    """Return the code that runs when a signal handler is called; None if it is written in C."""
    for _ in range(_MOST_LAYERS):
        if type(handler) is _FUNCTION:
            return handler.__code__
        inner = _INNER.get(type(handler))
        handler = _attribute(type(handler), "__call__") if inner is None else inner(handler)
    return None


def _arrived_from_outside(error, innermost):
    """Return whether an exception came between two instructions: not from a `raise`, and without a message.

    For an exception of another thread the interpreter calls its class without arguments. Functions written in C pass
    arguments.
    """
    code = innermost.tb_frame.f_code.co_code
    index = innermost.tb_lasti
    if not 0 <= index < len(code) or code[index] in _RAISES or type(error) in _SILENT:
        return False
    makers = [_attribute(type(error), name) for name in ("__init__", "__new__")]
    makers = [maker for maker in makers if type(maker) is _FUNCTION]
    return all(map(_needs_no_argument, makers)) if makers else not _arguments_of(error)


def _attribute(kind, name):
    """Return an attribute of a class as its __dict__ has it."""
    for cls in _classes_of(kind):
        if name in cls.__dict__:
            attribute = cls.__dict__[name]
            return attribute.__func__ if type(attribute) is staticmethod else attribute
    return None


def _needs_no_argument(maker):
    code = maker.__code__
    missing = code.co_argcount - 1 - len(maker.__defaults__ or ())
    return missing <= 0 and code.co_kwonlyargcount <= len(maker.__kwdefaults__ or ())


_FUNCTION = type(let_through)


class _Bound:
    def method(self):
        """Give the type of methods a name."""


# Types of signal handlers other than functions, and how to get the function in each; how many layers to unwrap.
_INNER = {partial: attrgetter("func"), type(_Bound().method): attrgetter("__func__")}
_MOST_LAYERS = 8
