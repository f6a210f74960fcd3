"""The CPU time of each thread of the process, and where those that run Python are. Part of the resource samples.

The kernel has a clock for each thread, which is read without releasing the interpreter's lock: if another thread holds
that lock most of the time, each read of a file may take 5 ms. So files are read only for threads that are new.
"""

import sys
import threading
from collections import deque
from opcode import opname

from tfprobe_agent.imports import is_library
from tfprobe_agent.interruptions import let_through
from tfprobe_agent.unpatched import UNPATCHED, read_file

from .calls import is_ours
from .threads import python_threads

TASKS = "/proc/self/task"
# All samples may take one part in this many of the time since the first; the early ones may take more.
PART_OF_TIME = 2000
EARLY_SAMPLES = 4
# Naming new threads stops after this long, and goes on when that is one part in PART_OF_TIME of the time.
NAMING_NS = 1000 * 1000
# Of Python's threads the busiest are listed one by one; of other threads that run Python, some.
MOST_THREADS = 16
MOST_GUESTS = 4
# The place of a thread is reported if it used this part of the time: of others chance decides where they wait.
STACK_PART = 20
FURTHER = "(further threads)"
UNNAMED = ""
_NAME_LENGTH = 64
_FILE_LENGTH = 256
_DIGITS = "0123456789"
# linux/posix-timers.h: CPUCLOCK_PERTHREAD_MASK | CPUCLOCK_SCHED
_OF_THREAD = 6
# A thread within a C call may have released the lock; one at another instruction was forced to.
_CALLS = ("CALL", "PRECALL")

# Lines of Python that ops were seen to run since the last sample: file, line, function, False. Added by `python_ops`.
OP_PLACES = deque(maxlen=4)


class ThreadTimes:
    """What the threads had used at the latest sample."""

    def __init__(self):
        self._used_ns = {}  # by native id
        self._names = {}  # the kernel's names, by native id; not those of Python's threads
        self._unsure = set()  # native ids of threads named once: a thread may name itself after its start
        self._naming_from_ns = 0
        self._count = None  # the kernel's number of threads when they were listed
        self._since_ns = None
        self._first_ns = None
        self._spent_ns = 0
        self._taken = 0

    def read(self, count, step_threads, is_last):
        """Return what threads used since the previous sample, or None if no sample is due or /proc has none.

        `count` is the number of threads, `step_threads` are the ids of those that run steps. The last sample is always
        due: no step waits for it.
        """
        now_ns = UNPATCHED.monotonic_ns()
        if count is None or not (is_last or self._is_due(now_ns)):
            return None
        own_ident = threading.get_ident()
        natives, unmapped = _natives(own_ident)
        used_ns = self._used(count)
        if used_ns is None:
            return None
        grown_ns = {tid: ns - self._used_ns.get(tid, 0) for tid, ns in used_ns.items()}
        for tid in [tid for tid, ns in grown_ns.items() if ns < 0]:  # another thread got the number
            grown_ns[tid] = used_ns[tid]
            self._names.pop(tid, None)
        self._name([tid for tid in used_ns if tid not in natives])
        since_ns, self._since_ns, self._used_ns = self._since_ns, now_ns, used_ns
        least_ns = 0 if since_ns is None else (now_ns - since_ns) // STACK_PART
        busy = {
            natives[tid].ident
            for tid, ns in grown_ns.items()
            if tid in natives and natives[tid].ident != own_ident and ns >= least_ns
        }
        stack_places, guests = _stack_places(busy, {thread.ident for thread in natives.values()}, unmapped)
        record = {
            "since_ns": since_ns,
            "python": _rows(natives, grown_ns, step_threads, stack_places),
            "guests": (_take_op_places() + guests)[:MOST_GUESTS],
            "native": self._by_name(natives, grown_ns),
            "unmapped": len(unmapped),
        }
        record["cost_ns"] = UNPATCHED.monotonic_ns() - now_ns
        self._spent_ns += record["cost_ns"]
        self._taken += 1
        return record

    def _is_due(self, now_ns):
        if self._first_ns is None:
            self._first_ns = now_ns
        if self._taken < EARLY_SAMPLES:
            return True
        usual_ns = self._spent_ns // self._taken
        return self._spent_ns + usual_ns <= (now_ns - self._first_ns) // PART_OF_TIME

    def _used(self, count):
        """Return the CPU time of all threads by native id; None if unknown."""
        tids = list(self._used_ns) if count == self._count else None
        if tids is not None:
            used_ns = {tid: _cpu_ns(tid) for tid in tids}
            if None not in used_ns.values():
                return used_ns
        try:
            tids = [int(name) for name in UNPATCHED.listdir(TASKS) if name.isdigit()]
        except OSError:
            let_through()
            return None
        self._count = len(tids)
        used_ns = {tid: _cpu_ns(tid) for tid in tids}
        used_ns = {tid: ns for tid, ns in used_ns.items() if ns is not None}
        self._names = {tid: name for tid, name in self._names.items() if tid in used_ns}
        self._unsure &= set(used_ns)
        return used_ns or None

    def _name(self, tids):
        began_ns = UNPATCHED.monotonic_ns()
        wanted = [tid for tid in tids if tid not in self._names or tid in self._unsure]
        if began_ns < self._naming_from_ns:
            return
        for tid in sorted(wanted, key=self._names.__contains__):
            if UNPATCHED.monotonic_ns() - began_ns > NAMING_NS:
                break
            try:
                name = read_file("%s/%d/comm" % (TASKS, tid), _NAME_LENGTH).decode("utf-8", "replace").strip()
            except OSError:
                let_through()
                continue  # it has ended
            (self._unsure.discard if tid in self._names else self._unsure.add)(tid)
            self._names[tid] = name.rstrip(_DIGITS)
        took_ns = UNPATCHED.monotonic_ns() - began_ns
        if took_ns > NAMING_NS:
            self._naming_from_ns = began_ns + PART_OF_TIME * took_ns

    def _by_name(self, natives, grown_ns):
        """Return name, number and CPU time of the threads that are not Python's, grouped by name."""
        groups = {}
        for tid, ns in grown_ns.items():
            if tid not in natives:
                group = groups.setdefault(self._names.get(tid, UNNAMED), [0, 0])
                group[0] += 1
                group[1] += ns
        return [[name, count, ns] for name, (count, ns) in sorted(groups.items())]


def _take_op_places():
    """Return the places that were added since the last call."""
    places = []
    while OP_PLACES:
        places.append(OP_PLACES.popleft())
    return places


def _natives(own_ident):
    """Return Python's threads by native id, and the idents of those whose native id is unknown."""
    natives, unmapped = {}, set()
    idents = set(sys._current_frames())
    for thread in python_threads():
        # A thread that Python did not start stays in its list after it has ended.
        is_guest = isinstance(thread, threading._DummyThread)
        if thread.ident is None or (is_guest and thread.ident not in idents):
            continue
        native = getattr(thread, "native_id", None)
        if thread is threading.main_thread():
            native = UNPATCHED.getpid()  # in a forked child its native_id is that of the parent
        elif native is None and thread.ident in idents and not is_guest:
            native = _native_of(thread.ident)
        if native is not None:
            natives[native] = thread
        elif thread.ident != own_ident:
            unmapped.add(thread.ident)
    return natives, unmapped


def _native_of(ident):
    """Return the native id of a thread in Python 3.7, None in 3.6.

    The C library reads it from the thread itself, so the thread must exist.
    """
    clock_of = UNPATCHED.pthread_getcpuclockid
    return None if clock_of is None else ~(clock_of(ident) >> 3)


def _cpu_ns(tid):
    """Return the CPU time of a thread of this process, None if there is no such thread."""
    try:
        return int(UNPATCHED.clock_gettime((~tid << 3) | _OF_THREAD) * 1e9)
    except OSError:
        let_through()
        return None


def _stack_places(busy, known, unmapped):
    """Return the places of these threads by ident, and of a few threads that Python has not started."""
    places, guests = {}, []
    frames = sys._current_frames()
    try:
        for ident, frame in frames.items():
            if ident in busy:
                places[ident] = _place(frame)
            elif ident not in known and ident not in unmapped and len(guests) < MOST_GUESTS:
                guests.append(_place(frame))
    finally:
        # They are the job's, and keep alive what its functions hold.
        frames = frame = None
    return places, [place for place in guests if place[0]]


def _place(frame):
    """Return file, line and function of the job's innermost frame, or else of the innermost; and if it runs Python."""
    code = frame.f_code
    runs = not opname[code.co_code[max(frame.f_lasti, 0)]].startswith(_CALLS)
    inner = frame
    while frame is not None:
        code = frame.f_code
        if not (is_library(code.co_filename) or code.co_filename.startswith("<frozen") or is_ours(code)):
            return [code.co_filename[:_FILE_LENGTH], frame.f_lineno or 0, code.co_name[:_NAME_LENGTH], runs]
        frame = frame.f_back
    code = inner.f_code
    return ["" if is_ours(code) else code.co_filename[:_FILE_LENGTH], inner.f_lineno or 0, code.co_name, runs]


def _rows(natives, grown_ns, step_threads, stack_places):
    """Return name, number, CPU time, whether it runs steps, and place of Python's threads that used any."""
    used = sorted((-grown_ns[tid], tid) for tid in natives if grown_ns.get(tid))
    rows = []
    for ns, tid in used[:MOST_THREADS]:
        thread = natives[tid]
        runs_steps = not step_threads.isdisjoint((tid, thread.ident, getattr(thread, "native_id", None)))
        row = [str(thread.name)[:_NAME_LENGTH], 1, -ns, runs_steps]
        rows.append(row + stack_places.get(thread.ident, ["", 0, "", False]))
    further = used[MOST_THREADS:]
    if further:
        rows.append([FURTHER, len(further), -sum(ns for ns, _ in further), False, "", 0, "", False])
    return rows
