"""Whose exception is it: one that our code brought about, or one that the job threw into it?

The job does so by a signal handler that raises, or from another thread by PyThreadState_SetAsyncExc. Both arrive at any
instruction of ours and leave a traceback of our frames. What is the job's goes on unchanged, whatever its class.
"""

import sys
from _functools import partial
from _operator import attrgetter
from _signal import NSIG, getsignal
from opcode import opmap

_RAISES = frozenset(opmap[name] for name in ("RAISE_VARARGS", "RERAISE") if name in opmap)
# What the interpreter itself raises without a word.
_SILENT = (MemoryError, StopIteration, StopAsyncIteration)
_TAKES_MORE_ARGUMENTS = 0x04  # co_flags: CO_VARARGS
_GONE = object()
# Read as `type` and `BaseException` read them: a class of the job may answer by code of its own.
_classes_of = type.__dict__["__mro__"].__get__
_arguments_of = BaseException.__dict__["args"].__get__


def let_through():
    """Raise the exception being handled again if it is the job's; return if our code brought it about.

    To be called first in every `except` of the agent that does not raise.
    """
    error = sys.exc_info()[1]
    try:
        theirs = of_the_job(error)
    except (MemoryError, RecursionError):
        return  # no room to tell, which the error being handled is likely about, too
    if theirs is None:
        return
    if theirs is error:
        del error, theirs  # with its traceback it would hold this frame, and this frame it
        raise
    context = theirs.__context__
    try:
        raise theirs
    finally:
        theirs.__context__ = context
        del error, theirs


def leave_traceback(error):
    """Take the frame that handles an exception out of its traceback; `raise` must follow.

    From Python 3.11 on; before, the interpreter puts the frame back.
    """
    error.__traceback__ = error.__traceback__.tb_next


def of_the_job(error):
    """Return the exception that the job threw: this one, or one that code we called has answered by this one; or None.

    Only what arose below the frame that handles `error` counts: the job may be handling something else meanwhile.
    Runs no code of the job, so that nothing can fail here.
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
    """Tell whether a function was called as a signal handler: it is one, or has the frame that was interrupted.

    Many handlers reset themselves, and many assign to their arguments or delete them, as style guides want it of unused
    ones.
    """
    number, interrupted = _last_arguments(frame)
    if interrupted is not None and interrupted is frame.f_back:
        return True
    if interrupted is _GONE and (number is _GONE or type(number) is int):
        return True
    return any(_code_of(getsignal(number)) is frame.f_code for number in range(1, NSIG))


def _last_arguments(frame):
    code = frame.f_code
    values = frame.f_locals
    names = code.co_varnames[: code.co_argcount]
    arguments = [values.get(name, _GONE) for name in names]
    if code.co_flags & _TAKES_MORE_ARGUMENTS:
        arguments.extend(values.get(code.co_varnames[code.co_argcount + code.co_kwonlyargcount], ()))
    return arguments[-2:] if len(arguments) > 1 else (None, None)


def _code_of(handler):
    """Return the code that runs when a signal handler is called; None of one written in C."""
    for _ in range(_MOST_LAYERS):
        if type(handler) is _FUNCTION:
            return handler.__code__
        inner = _INNER.get(type(handler))
        handler = _attribute(type(handler), "__call__") if inner is None else inner(handler)
    return None


def _arrived_from_outside(error, innermost):
    """Tell whether an exception came between two instructions: no `raise` made it, and nobody gave it a message.

    The interpreter makes an exception of another thread by calling its class without arguments. What functions written
    in C raise has arguments.
    """
    code = innermost.tb_frame.f_code.co_code
    index = innermost.tb_lasti
    if not 0 <= index < len(code) or code[index] in _RAISES or type(error) in _SILENT:
        return False
    makers = [_attribute(type(error), name) for name in ("__init__", "__new__")]
    makers = [maker for maker in makers if type(maker) is _FUNCTION]
    return all(map(_needs_no_argument, makers)) if makers else not _arguments_of(error)


def _attribute(kind, name):
    """Return an attribute of a class as it stands there."""
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


# What a signal handler may be but a function, and where in it the function is; how deep one looks.
_INNER = {partial: attrgetter("func"), type(_Bound().method): attrgetter("__func__")}
_MOST_LAYERS = 8
