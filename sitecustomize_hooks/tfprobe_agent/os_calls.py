"""boot/signals.tsv: which process of the job sent which other one a signal to end, so that it does not count as killed.

A process that a signal ends can note nothing itself. Its parent need not import TensorFlow, so this covers all
processes that import `subprocess` or start processes by `multiprocessing`.

Functions of `os` that are written in C are wrapped by an object that looks like them: a Python function in its place
would become a method where a class has it as an attribute, and would name itself in errors about wrong arguments.
"""

import os

from .boot import import_and_let_through
from .unpatched import UNPATCHED

# SIGHUP, SIGINT, SIGQUIT, SIGABRT, SIGKILL, SIGTERM: sent to end a process.
_ENDING = frozenset((1, 2, 3, 6, 9, 15))
MOST_LINES = 10000


class _Sent:
    def __init__(self):
        self.path = None
        self.sent = set()


_SENT = _Sent()


def watch_signals(boot):
    """Note the calls of os.kill and os.killpg in this process; once."""
    if _SENT.path is None:
        _SENT.path = os.path.join(boot, "signals.tsv")
        precede("kill", _noting(lambda pid: pid or -os.getpgrp()))
        precede("killpg", _noting(lambda group: -(group or os.getpgrp())))


def _noting(target_of):
    def note(args, _kwargs):
        try:
            target, number = args
            if number in _ENDING:
                _note(target_of(int(target)), int(number))
        except Exception:
            import_and_let_through()  # wrong arguments, which the original refuses; or no room for the note

    return note


def _note(target, number):
    """Append a line: host, sender, unix ns, process or minus its group, signal, monotonic ns."""
    sender = UNPATCHED.getpid()
    key = sender, target, number
    if target in (sender, -1) or key in _SENT.sent or len(_SENT.sent) >= MOST_LINES:
        return
    _SENT.sent.add(key)
    fields = UNPATCHED.uname().nodename, sender, UNPATCHED.unix_ns(), target, number, UNPATCHED.monotonic_ns()
    descriptor = UNPATCHED.open(_SENT.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        UNPATCHED.write(descriptor, ("\t".join(map(str, fields)) + "\n").encode("utf-8", "replace"))
    finally:
        UNPATCHED.close(descriptor)


def precede(name, note, undo=None):
    """Call `note` with the same arguments before each call of `os.<name>`, and `undo` after a call that raised.

    Neither may raise an error of the agent.
    """
    setattr(os, name, _Preceded(getattr(os, name), note, undo))


class _Preceded:
    def __init__(self, original, note, undo):
        self._original = original
        self._note = note
        self._undo = undo
        self.__doc__ = original.__doc__
        self.__module__ = "os"  # where pickle finds it

    def __call__(self, *args, **kwargs):
        self._note(args, kwargs)
        try:
            return self._original(*args, **kwargs)
        except BaseException as error:
            if self._undo is not None:
                self._undo()
            # Like `interruptions.leave_traceback`, which most processes that come here never import.
            error.__traceback__ = error.__traceback__.tb_next
            raise

    @property
    def __class__(self):
        return type(self._original)

    def __getattr__(self, name):
        return getattr(self._original, name)

    def __repr__(self):
        return repr(self._original)

    def __reduce_ex__(self, _protocol):
        return self._original.__name__
