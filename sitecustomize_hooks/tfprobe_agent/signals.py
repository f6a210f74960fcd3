"""boot/signals.tsv: which process of the job told which other one to end, so that nobody takes that one for killed.

A process that a signal ends can note nothing itself. Its parent need not import TensorFlow, so this is for all that
import `subprocess` or start processes by `multiprocessing`.
"""

import os

from . import builtin
from .boot import import_and_let_through
from .originals import ORIGINAL

# SIGHUP, SIGINT, SIGQUIT, SIGABRT, SIGKILL, SIGTERM: what is sent to end a process.
_ENDING = frozenset((1, 2, 3, 6, 9, 15))
MOST_LINES = 10000


class _Noted:
    def __init__(self):
        self.path = None
        self.told = set()


_NOTED = _Noted()


def watch(boot):
    """Note the calls of os.kill and os.killpg in this process; once."""
    if _NOTED.path is None:
        _NOTED.path = os.path.join(boot, "signals.tsv")
        builtin.precede("kill", _noting(lambda pid: pid or -os.getpgrp()))
        builtin.precede("killpg", _noting(lambda group: -(group or os.getpgrp())))


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
    sender = ORIGINAL.getpid()
    key = sender, target, number
    if target in (sender, -1) or key in _NOTED.told or len(_NOTED.told) >= MOST_LINES:
        return
    _NOTED.told.add(key)
    fields = ORIGINAL.uname().nodename, sender, ORIGINAL.unix_ns(), target, number, ORIGINAL.monotonic_ns()
    descriptor = ORIGINAL.open(_NOTED.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        ORIGINAL.write(descriptor, ("\t".join(map(str, fields)) + "\n").encode("utf-8", "replace"))
    finally:
        ORIGINAL.close(descriptor)
