"""pulses.jsonl: what the process and its machine have used up, at most once a second. Without a thread.

A step takes one where it looks at the control word anyway, so that a job that does not step has none.
"""

try:
    from resource import RUSAGE_SELF, getrusage
except ImportError:  # a Python built without it
    getrusage = RUSAGE_SELF = None

from . import cgroups
from .garbage import PAUSES
from .guard import never_raise_noting
from .interruptions import let_through
from .originals import ORIGINAL, read_file
from .recorder import CURRENT, current
from .steps_layout import THREAD_ID
from .thread_times import ThreadTimes

FILE = "pulses.jsonl"
PAUSE_NS = 1000 * 1000 * 1000
# A job of days takes this many, then as many at twice the distance, and so on.
PULSES_AT_A_PAUSE = 1000
# After two reads of /proc/stat that took so long, the next pulses do without.
SLOW_READ_NS = 500 * 1000
SLOW_READS_SKIP = 15

_STATUS = {b"VmRSS": "resident_bytes", b"VmHWM": "peak_resident_bytes", b"Threads": "threads"}
_IO = {b"read_bytes": "read_bytes", b"write_bytes": "written_bytes"}
_LINE_BYTES = 512
_UNKNOWN = dict.fromkeys(tuple(_STATUS.values()) + tuple(_IO.values()))
# Of the first line of /proc/stat, which counts ticks of all CPUs together since the machine started.
_BUSY, _IO_WAIT, _STEAL = (0, 1, 2, 5, 6), 4, 7


class _MachineCpus:
    """What all CPUs of the machine did, for whom ever: summed over CPUs.

    The kernel writes the whole of /proc/stat to tell its first line, which takes ms where there are hundreds of CPUs.
    There it is read seldom.
    """

    def __init__(self):
        self._skip = self._slow_reads = 0

    def read(self):
        """Return ns since the machine started; None where the system does not tell, or is not asked this time."""
        unknown = dict.fromkeys(("machine_busy_ns", "machine_io_wait_ns", "machine_steal_ns"))
        if self._skip:
            self._skip -= 1
            return unknown
        began_ns = ORIGINAL.monotonic_ns()
        ticks = _words("/proc/stat")[1:]
        self._slow_reads = self._slow_reads + 1 if ORIGINAL.monotonic_ns() - began_ns > SLOW_READ_NS else 0
        # Once is chance: the thread may have lost its CPU meanwhile.
        if self._slow_reads > 1:
            self._skip = SLOW_READS_SKIP
        per_s = _asked(lambda: ORIGINAL.sysconf("SC_CLK_TCK"))
        known = [int(each) for each in ticks[: _STEAL + 1] if each.isdigit()]
        if len(known) <= _STEAL or not per_s:
            return unknown
        ns = [each * 1000 * 1000 * 1000 // per_s for each in known]
        return {
            "machine_busy_ns": sum(ns[at] for at in _BUSY),
            "machine_io_wait_ns": ns[_IO_WAIT],
            "machine_steal_ns": ns[_STEAL],
        }


class _Pulses:
    """When the next is due, and what need not be read again; made anew after a fork."""

    def __init__(self):
        self.next_ns = 0
        self.taken = 0
        self.cgroup = None
        self.machine_cpus = _MachineCpus()
        self.thread_times = ThreadTimes()
        # Collections that ended by then have been written.
        self.gc_until_ns = ORIGINAL.monotonic_ns()


PULSES = _Pulses()


def reset():
    """Forget the parent's, in a forked child."""
    PULSES.__init__()
    PAUSES.forget_parent()


@never_raise_noting
def beat(now_ns, at_exit=False):
    """Take a pulse, as a step begins or at the exit of the process."""
    pulses = PULSES
    pulses.next_ns = now_ns + (PAUSE_NS << min(pulses.taken // PULSES_AT_A_PAUSE, 20))
    pulses.taken += 1
    recorder = current()
    record = {"mono_ns": now_ns, "steps": sum(work.n for work in recorder.works), "at_exit": at_exit}
    record.update(_UNKNOWN)
    record.update(_usage())
    record.update(_fields("/proc/self/status", _STATUS))
    record.update(_fields("/proc/self/io", _IO))
    record.update(_machine())
    record.update(pulses.machine_cpus.read())
    record["run_delay_ns"] = _run_delay_ns()
    record.update(_garbage(pulses))
    step_threads = {work.words[work.base + THREAD_ID] for work in recorder.works}
    record["thread_times"] = pulses.thread_times.read(record["threads"], step_threads, at_exit)
    if pulses.cgroup is None:
        pulses.cgroup = cgroups.Cgroup()
    record.update(pulses.cgroup.read())
    recorder.journal.append(FILE, record)
    recorder.spent_once(ORIGINAL.monotonic_ns() - now_ns)


@never_raise_noting
def at_exit():
    """Take a last pulse, in the process that made the recording and has taken others."""
    recorder = CURRENT.recorder
    if recorder is not None and recorder.pid == ORIGINAL.getpid() and PULSES.taken:
        beat(ORIGINAL.monotonic_ns(), at_exit=True)


def _usage():
    """Return what all threads of the process used, those that have ended included (/proc tells of the first alone)."""
    used = getrusage and getrusage(RUSAGE_SELF)
    return {
        "user_ns": used and int(used.ru_utime * 1e9),
        "system_ns": used and int(used.ru_stime * 1e9),
        "voluntary_switches": used and used.ru_nvcsw,
        "involuntary_switches": used and used.ru_nivcsw,
        "major_faults": used and used.ru_majflt,
    }


def _fields(path, names):
    """Return the numbers of a file of "name: number" lines, in bytes where it counts in kB."""
    found = {}
    try:
        for line in read_file(path).split(b"\n"):
            name, _, value = line.partition(b":")
            if name in names:
                words = value.split()
                found[names[name]] = int(words[0]) << (10 if words[1:] == [b"kB"] else 0)
    except (OSError, ValueError, IndexError):
        let_through()  # no /proc, or one that says it otherwise: the numbers stay unknown
    return found


def _garbage(pulses):
    """Return what garbage collections took so far, and the longest since the last pulse one by one."""
    if not PAUSES.is_followed():
        return {"gc_ns": None, "gc_pauses": None}
    pauses = PAUSES.longest(pulses.gc_until_ns)
    pulses.gc_until_ns = ORIGINAL.monotonic_ns()
    return {"gc_ns": PAUSES.total_ns(), "gc_pauses": pauses}


def _run_delay_ns():
    """Return how long the first thread was ready to run and had no CPU."""
    words = _words("/proc/self/schedstat")
    return int(words[1]) if len(words) > 1 and words[1].isdigit() else None


def _words(path):
    """Return the words of the first line of a file, none where there is no such file."""
    try:
        return read_file(path, _LINE_BYTES).split(b"\n")[0].split()
    except OSError:
        let_through()
        return []


def _machine():
    return {
        "cpus": _asked(lambda: len(ORIGINAL.sched_getaffinity(0))),
        "machine_memory_bytes": _asked(lambda: ORIGINAL.sysconf("SC_PHYS_PAGES") * ORIGINAL.sysconf("SC_PAGE_SIZE")),
        "load_1min": _asked(lambda: ORIGINAL.getloadavg()[0]),
    }


def _asked(question):
    try:
        return question()
    except (OSError, ValueError, AttributeError, TypeError):
        let_through()
        return None
