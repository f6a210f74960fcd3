"""activities.jsonl: what the process did besides steps, by intervals. Cheap enough for what happens a lot.

Of each kind and name the first intervals are written, then at most one a second, later fewer; counts and total times
are exact.
"""

import functools
import sys
import threading

from .guard import STATE, failed, never_raise_noting
from .imports import place_of
from .interruptions import leave_traceback
from .originals import ORIGINAL
from .recorder import CURRENT
from .threads import THREAD, name_of, thread_name

FILE = "activities.jsonl"
# Intervals of one kind and name that are written whatever they follow upon.
FIRST_INTERVALS = 256
PAUSE_NS = 1000 * 1000 * 1000
# After so many lines of a kind and name the pause is twice as long, and so on: a job of a month writes 12,000. What a
# killed process has not told is less than one part in a thousand of its time.
LINES_AT_A_PAUSE = 1000
# A job that makes up names: those beyond have one name together, and from so many lines on all share the pause.
MAX_NAMES = 1000
MAX_LINES = 10000
FURTHER = "(further names)"
NAME_LENGTH = 256
# Lines that wait for a process folder: a program may name what it does before it imports TensorFlow.
MAX_WAITING = 1000
# These last: they are told when they begin, too, so that a job that is killed, or still runs, shows them.
_LONG = ("train", "evaluate", "predict")


class _Kept:
    """All intervals of one kind and name so far. `last` is the latest if it was not written, as `_line` takes it."""

    __slots__ = ("count", "kind", "last", "lines", "name", "next_ns", "total_ns")

    def __init__(self, kind, name):
        self.kind = kind
        self.name = name
        self.count = 0
        self.total_ns = 0
        self.next_ns = 0
        self.lines = 0
        self.last = None


class _Table:
    """What this process has done; made anew after a fork."""

    def __init__(self):
        # A signal handler of the job may begin an activity in the middle of one that ends.
        self.lock = threading.RLock()
        self.kept = {}
        self.lines = 0
        self.next_ns = 0
        self.waiting = []

    def find(self, kind, name):
        """Return what is kept of a kind and name."""
        key = kind, name
        kept = self.kept.get(key)
        if kept is None:
            if len(self.kept) >= MAX_NAMES and name != FURTHER:
                return self.find(kind, FURTHER)
            kept = self.kept[key] = _Kept(kind, name)
        return kept

    def takes_line(self, kept, now_ns):
        """Tell whether an interval is to be written now, and take note of it."""
        if now_ns < kept.next_ns and kept.count > FIRST_INTERVALS:
            return False
        if now_ns < self.next_ns and self.lines >= MAX_LINES:
            return False
        kept.lines += 1
        self.lines += 1
        kept.next_ns = now_ns + _pause_ns(kept.lines, LINES_AT_A_PAUSE)
        self.next_ns = now_ns + _pause_ns(self.lines, MAX_LINES)
        return True


def _pause_ns(lines, lines_at_a_pause):
    return PAUSE_NS << min(lines // lines_at_a_pause, 20)


TABLE = _Table()


def reset():
    """Forget what the parent did, in a forked child."""
    TABLE.__init__()


def note(kind, name, start_ns, end_ns, told=False, thread=None, place=None):
    """Count an interval of the calling thread; write it if it is one of few, or was `told` when it began.

    `place` is a file and a line, else those of the job's line that called for it.
    """
    table = TABLE
    with table.lock:
        kept = table.kept.get((kind, name)) or table.find(kind, name)
        kept.count += 1
        kept.total_ns += end_ns - start_ns
        interval = thread or thread_name(), start_ns, end_ns, place
        if not told and not table.takes_line(kept, end_ns):
            kept.last = interval
            return
        kept.last = None
        line = _line(kept, *interval[:3], place or place_of(sys._getframe(1)))
    _write(table, line)


@never_raise_noting
def begin(kind, name, args=(), kwargs=None):
    """Note that an activity begins; return what `end` needs, or None inside another of its kind on this thread.

    `name` may be a function of the call's arguments. Who calls this puts `doing` back as it was, whatever happens.
    """
    mine = THREAD.mine
    if kind in mine.doing:
        return None
    name = name if isinstance(name, str) else name(args, kwargs)
    start_ns = ORIGINAL.monotonic_ns()
    told = kind in _LONG and _tell_begin(kind, name, start_ns)
    mine.doing += (kind,)
    return mine, kind, name, start_ns, told


@never_raise_noting
def end(began):
    """Note that an activity has ended; one that a forked child ends was its parent's."""
    end_ns = ORIGINAL.monotonic_ns()
    mine, kind, name, start_ns, told = began
    if mine is THREAD.mine:
        note(kind, name, start_ns, end_ns, told)


def noted(kind, name):
    """Return a function that takes a function of the job's and returns one whose calls are activities.

    For what is called rarely: a call costs some microseconds more.
    """

    def around(original):
        def call(*args, **kwargs):
            mine, began = THREAD.mine, None
            doing = mine.doing
            try:
                began = begin(kind, name, args, kwargs)
                return original(*args, **kwargs)
            except BaseException as error:
                leave_traceback(error)
                raise
            finally:
                mine.doing = doing
                if began is not None:
                    end(began)

        return call

    return around


@never_raise_noting
def imported(name, start_ns, end_ns, ident, file, line):
    """Note an import that has ended on the thread with that ident."""
    note("import", name, start_ns, end_ns, thread=name_of(ident), place=(file, line))


@never_raise_noting
def at_exit():
    """Write the latest interval of each kind and name that was not: with it stand all counts and times."""
    table = TABLE
    if CURRENT.recorder is None or CURRENT.recorder.pid != ORIGINAL.getpid():
        return
    with table.lock:
        lines = [_line(kept, *kept.last) for kept in table.kept.values() if kept.last is not None]
    _write(table, *lines)


def _tell_begin(kind, name, start_ns):
    table = TABLE
    with table.lock:
        kept = table.find(kind, name)
        told = table.takes_line(kept, start_ns)
        line = _line(kept, thread_name(), start_ns, None, place_of(sys._getframe(2)))
    if told:
        _write(table, line)
    return told


def _line(kept, thread, start_ns, end_ns, place):
    line = {
        "activity": kept.kind,
        "name": kept.name,
        "thread": thread,
        "start_ns": start_ns,
        "end_ns": end_ns,
        "count": kept.count,
        "total_ns": kept.total_ns,
    }
    if place is not None and place[0]:
        line["file"], line["line"] = place
    return line


def _write(table, *lines):
    """Append lines to the file of this process; without a folder yet, keep some until there is one."""
    recorder = CURRENT.recorder
    if recorder is None or recorder.pid != ORIGINAL.getpid():
        table.waiting.extend(lines[: MAX_WAITING - len(table.waiting)])
        return
    began_ns = ORIGINAL.monotonic_ns()
    waiting, table.waiting = table.waiting, []
    if waiting or lines:
        recorder.journal.append(FILE, *(waiting + list(lines)))
        recorder.spent_once(ORIGINAL.monotonic_ns() - began_ns)


class activity:  # noqa: N801 - reads as a statement: with tfprobe.activity("load data")
    """Name what a piece of the job does: `with activity("load data"): ...`, or `@activity("load data")`.

    One object stands for one use at a time. A decorated generator or coroutine is timed until it is made, not run.
    """

    __slots__ = ("_start_ns", "name")

    def __init__(self, name):
        self.name = name[:NAME_LENGTH] if isinstance(name, str) else str(name)[:NAME_LENGTH]

    def __enter__(self):
        self._start_ns = ORIGINAL.monotonic_ns()
        return self

    def __exit__(self, kind=None, error=None, traceback=None):
        end_ns = ORIGINAL.monotonic_ns()
        try:
            if STATE.noting and not STATE.aside:
                note("user", self.name, self._start_ns, end_ns)
        except Exception:
            failed("activity", noting_only=True)

    def __call__(self, function):
        name = self.name

        @functools.wraps(function)
        def named(*args, **kwargs):
            try:
                with activity(name):
                    return function(*args, **kwargs)
            except BaseException as error:
                leave_traceback(error)
                raise

        return named
