"""activities.jsonl: what the process did besides steps, as intervals.

Cheap enough for activities that happen often: of each kind and name the first intervals are written, then at most one a
second, later fewer. Counts and total times are exact.
"""

import functools
import sys
import threading

from .core.guard import STATE, failed, never_raise_noting
from .core.recorder import CURRENT
from .core.threads import THREAD, name_of, thread_name
from .imports import place_of
from .interruptions import leave_traceback
from .unpatched import UNPATCHED

FILE = "activities.jsonl"
# Intervals of one kind and name that are written however close together they are.
FIRST_INTERVALS = 256
PAUSE_NS = 1000 * 1000 * 1000
# After this many lines of a kind and name the pause doubles, and so on: a job of a month writes 12,000 lines. What a
# killed process has not written is less than one part in a thousand of its time.
LINES_AT_A_PAUSE = 1000
# For a job that makes up names: names beyond this limit share one entry, and beyond this many lines all share the
# pause.
MAX_NAMES = 1000
MAX_LINES = 10000
FURTHER = "(further names)"
NAME_LENGTH = 256
# Lines that wait for a process folder: a program may name activities before it imports TensorFlow.
MAX_WAITING = 1000
# Long activities: they are also written when they begin, so that a job that is killed or still running shows them.
_LONG = ("train", "evaluate", "predict")


class _ActivityTotals:
    """Count and total time of one kind and name.

    `last` is the latest interval if it was not written, as the arguments of `_line`.
    """

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
    """What this process has done; created anew after a fork."""

    def __init__(self):
        # Reentrant: a signal handler of the job may begin an activity while another one ends.
        self.lock = threading.RLock()
        self.totals = {}
        self.lines = 0
        self.next_ns = 0
        self.waiting = []

    def find(self, kind, name):
        """Return the totals of a kind and name."""
        key = kind, name
        totals = self.totals.get(key)
        if totals is None:
            if len(self.totals) >= MAX_NAMES and name != FURTHER:
                return self.find(kind, FURTHER)
            totals = self.totals[key] = _ActivityTotals(kind, name)
        return totals

    def takes_line(self, totals, now_ns):
        """Return whether an interval is to be written now; if so, count its line."""
        if now_ns < totals.next_ns and totals.count > FIRST_INTERVALS:
            return False
        if now_ns < self.next_ns and self.lines >= MAX_LINES:
            return False
        totals.lines += 1
        self.lines += 1
        totals.next_ns = now_ns + _pause_ns(totals.lines, LINES_AT_A_PAUSE)
        self.next_ns = now_ns + _pause_ns(self.lines, MAX_LINES)
        return True


def _pause_ns(lines, lines_at_a_pause):
    return PAUSE_NS << min(lines // lines_at_a_pause, 20)


TABLE = _Table()


def reset():
    """Forget what the parent did, in a forked child."""
    TABLE.__init__()


def note(kind, name, start_ns, end_ns, begin_written=False, thread=None, place=None):
    """Count an interval of the calling thread; write it if few were written, or if its beginning was.

    `place` is a file and a line; without it, they are those of the line of the job that made the call.
    """
    table = TABLE
    with table.lock:
        totals = table.totals.get((kind, name)) or table.find(kind, name)
        totals.count += 1
        totals.total_ns += end_ns - start_ns
        interval = thread or thread_name(), start_ns, end_ns, place
        if not begin_written and not table.takes_line(totals, end_ns):
            totals.last = interval
            return
        totals.last = None
        line = _line(totals, *interval[:3], place or place_of(sys._getframe(1)))
    _write(table, line)


@never_raise_noting
def begin(kind, name, args=(), kwargs=None):
    """Note that an activity begins; return what `end` needs, or None inside another of its kind on this thread.

    `name` may be a function of the call's arguments. The caller restores `doing` afterwards, whatever happens.
    """
    current = THREAD.current
    if kind in current.doing:
        return None
    name = name if isinstance(name, str) else name(args, kwargs)
    start_ns = UNPATCHED.monotonic_ns()
    begin_written = kind in _LONG and _write_begin(kind, name, start_ns)
    current.doing += (kind,)
    return current, kind, name, start_ns, begin_written


@never_raise_noting
def end(began):
    """Note that an activity has ended. In a forked child nothing is noted: the activity was its parent's."""
    end_ns = UNPATCHED.monotonic_ns()
    current, kind, name, start_ns, begin_written = began
    if current is THREAD.current:
        note(kind, name, start_ns, end_ns, begin_written)


def noted(kind, name):
    """Return a decorator for functions of the job whose calls are activities.

    For functions that are called rarely: it adds some microseconds to a call.
    """

    def around(original):
        def call(*args, **kwargs):
            current, began = THREAD.current, None
            doing = current.doing
            try:
                began = begin(kind, name, args, kwargs)
                return original(*args, **kwargs)
            except BaseException as error:
                leave_traceback(error)
                raise
            finally:
                current.doing = doing
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
    """Write each latest interval that was not written yet: it carries the final count and total time."""
    table = TABLE
    if CURRENT.recorder is None or CURRENT.recorder.pid != UNPATCHED.getpid():
        return
    with table.lock:
        lines = [_line(totals, *totals.last) for totals in table.totals.values() if totals.last is not None]
    _write(table, *lines)


def _write_begin(kind, name, start_ns):
    table = TABLE
    with table.lock:
        totals = table.find(kind, name)
        begin_written = table.takes_line(totals, start_ns)
        line = _line(totals, thread_name(), start_ns, None, place_of(sys._getframe(2)))
    if begin_written:
        _write(table, line)
    return begin_written


def _line(totals, thread, start_ns, end_ns, place):
    line = {
        "activity": totals.kind,
        "name": totals.name,
        "thread": thread,
        "start_ns": start_ns,
        "end_ns": end_ns,
        "count": totals.count,
        "total_ns": totals.total_ns,
    }
    if place is not None and place[0]:
        line["file"], line["line"] = place
    return line


def _write(table, *lines):
    """Append lines to the file of this process; without a process folder, keep some until there is one."""
    recorder = CURRENT.recorder
    if recorder is None or recorder.pid != UNPATCHED.getpid():
        table.waiting.extend(lines[: MAX_WAITING - len(table.waiting)])
        return
    began_ns = UNPATCHED.monotonic_ns()
    waiting, table.waiting = table.waiting, []
    if waiting or lines:
        recorder.process_dir.append(FILE, *(waiting + list(lines)))
        recorder.spent_once(UNPATCHED.monotonic_ns() - began_ns)


class activity:  # noqa: N801 - reads as a statement: with tfprobe.activity("load data")
    """Name a part of the job: `with activity("load data"): ...`, or `@activity("load data")`.

    One object times one use at a time. Of a decorated generator or coroutine only the call that creates it is timed.
    """

    __slots__ = ("_start_ns", "name")

    def __init__(self, name):
        self.name = name[:NAME_LENGTH] if isinstance(name, str) else str(name)[:NAME_LENGTH]

    def __enter__(self):
        self._start_ns = UNPATCHED.monotonic_ns()
        return self

    def __exit__(self, kind=None, error=None, traceback=None):
        end_ns = UNPATCHED.monotonic_ns()
        try:
            if STATE.noting and not STATE.disabled:
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
