"""pulses.jsonl: samples of what the process and its machine have used, at most one per second. Without a thread.

A step takes a sample where it looks at the control words anyway, so a job that does not step has none.

Limits come from the process's control groups, in both versions of the kernel's interface. Garbage collections are timed
by `gc.callbacks`, by a callback that is composed of C functions: they check for no signals. An exception that a signal
handler of the job raised in Python code there would be printed by the collector, and lost.
"""

import gc
import os
from collections import deque
from functools import partial
from itertools import accumulate, cycle, repeat, starmap, tee
from operator import mul

from tfprobe_agent import cells
from tfprobe_agent.interruptions import let_through
from tfprobe_agent.unpatched import UNPATCHED, read_file

from .guard import never_raise_noting
from .recorder import CURRENT, current_recorder
from .steps_layout import THREAD_ID
from .thread_times import ThreadTimes

try:
    from resource import RUSAGE_SELF, getrusage
except ImportError:  # a Python built without it
    getrusage = RUSAGE_SELF = None

FILE = "pulses.jsonl"
PAUSE_NS = 1000 * 1000 * 1000
# A job of days takes this many samples, then as many at twice the distance, and so on.
SAMPLES_AT_A_PAUSE = 1000
# After two reads of /proc/stat that took this long, the next samples do without it.
SLOW_READ_NS = 500 * 1000
SLOW_READS_SKIP = 15

_STATUS = {b"VmRSS": "resident_bytes", b"VmHWM": "peak_resident_bytes", b"Threads": "threads"}
_IO = {b"read_bytes": "read_bytes", b"write_bytes": "written_bytes"}
_LINE_BYTES = 512
_UNKNOWN = dict.fromkeys(tuple(_STATUS.values()) + tuple(_IO.values()))
# Fields of the first line of /proc/stat, which counts ticks of all CPUs together since boot.
_BUSY, _IO_WAIT, _STEAL = (0, 1, 2, 5, 6), 4, 7


class _MachineCpus:
    """What all CPUs of the machine did, for any process: summed over CPUs.

    The kernel generates all of /proc/stat to return its first line, which takes milliseconds if there are hundreds of
    CPUs. There it is read seldom.
    """

    def __init__(self):
        self._skip = self._slow_reads = 0

    def read(self):
        """Return times since boot; None if the system does not provide them, or they are not read this time."""
        unknown = dict.fromkeys(("machine_busy_ns", "machine_io_wait_ns", "machine_steal_ns"))
        if self._skip:
            self._skip -= 1
            return unknown
        began_ns = UNPATCHED.monotonic_ns()
        ticks = _words("/proc/stat")[1:]
        self._slow_reads = self._slow_reads + 1 if UNPATCHED.monotonic_ns() - began_ns > SLOW_READ_NS else 0
        # A single slow read may be chance: the thread may have lost its CPU.
        if self._slow_reads > 1:
            self._skip = SLOW_READS_SKIP
        per_s = _or_none(lambda: UNPATCHED.sysconf("SC_CLK_TCK"))
        known = [int(field) for field in ticks[: _STEAL + 1] if field.isdigit()]
        if len(known) <= _STEAL or not per_s:
            return unknown
        ns = [count * 1000 * 1000 * 1000 // per_s for count in known]
        return {
            "machine_busy_ns": sum(ns[index] for index in _BUSY),
            "machine_io_wait_ns": ns[_IO_WAIT],
            "machine_steal_ns": ns[_STEAL],
        }


class _ResourceSamples:
    """When the next sample is due, and values that need not be read again; created anew after a fork."""

    def __init__(self):
        self.next_ns = 0
        self.taken = 0
        self.cgroup = None
        self.machine_cpus = _MachineCpus()
        self.thread_times = ThreadTimes()
        # Collections that ended by then have been written.
        self.gc_until_ns = UNPATCHED.monotonic_ns()


RESOURCE_SAMPLES = _ResourceSamples()


def reset():
    """Forget the parent's state, in a forked child."""
    RESOURCE_SAMPLES.__init__()
    PAUSES.forget_parent()


@never_raise_noting
def take_sample(now_ns, at_exit=False):
    """Take a sample, as a step begins or at the exit of the process."""
    samples = RESOURCE_SAMPLES
    samples.next_ns = now_ns + (PAUSE_NS << min(samples.taken // SAMPLES_AT_A_PAUSE, 20))
    samples.taken += 1
    recorder = current_recorder()
    record = {"mono_ns": now_ns, "steps": sum(loop.n for loop in recorder.loops), "at_exit": at_exit}
    record.update(_UNKNOWN)
    record.update(_usage())
    record.update(_fields("/proc/self/status", _STATUS))
    record.update(_fields("/proc/self/io", _IO))
    record.update(_machine())
    record.update(samples.machine_cpus.read())
    record["run_delay_ns"] = _run_delay_ns()
    record.update(_garbage(samples))
    step_threads = {loop.words[loop.base + THREAD_ID] for loop in recorder.loops}
    record["thread_times"] = samples.thread_times.read(record["threads"], step_threads, at_exit)
    if samples.cgroup is None:
        samples.cgroup = Cgroup()
    record.update(samples.cgroup.read())
    recorder.process_dir.append(FILE, record)
    cells.note_cells()
    recorder.spent_once(UNPATCHED.monotonic_ns() - now_ns)


@never_raise_noting
def at_exit():
    """Take a last sample, in the process that made the recording and has taken others."""
    recorder = CURRENT.recorder
    if recorder is not None and recorder.pid == UNPATCHED.getpid() and RESOURCE_SAMPLES.taken:
        take_sample(UNPATCHED.monotonic_ns(), at_exit=True)


def _usage():
    """Return what all threads of the process used, including ended ones, which /proc leaves out."""
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
    fields = {}
    try:
        for line in read_file(path).split(b"\n"):
            name, _, value = line.partition(b":")
            if name in names:
                words = value.split()
                fields[names[name]] = int(words[0]) << (10 if words[1:] == [b"kB"] else 0)
    except (OSError, ValueError, IndexError):
        let_through()  # no /proc, or an unknown format: the numbers stay unknown
    return fields


def _garbage(samples):
    """Return the total time of garbage collections, and the longest since the last sample one by one."""
    if not PAUSES.is_followed():
        return {"gc_ns": None, "gc_pauses": None}
    pauses = PAUSES.longest(samples.gc_until_ns)
    samples.gc_until_ns = UNPATCHED.monotonic_ns()
    return {"gc_ns": PAUSES.total_ns(), "gc_pauses": pauses}


def _run_delay_ns():
    """Return how long the first thread was ready to run and had no CPU."""
    words = _words("/proc/self/schedstat")
    return int(words[1]) if len(words) > 1 and words[1].isdigit() else None


def _words(path):
    """Return the words of the first line of a file, none if there is no such file."""
    try:
        return read_file(path, _LINE_BYTES).split(b"\n")[0].split()
    except OSError:
        let_through()
        return []


def _machine():
    return {
        "cpus": _or_none(lambda: len(UNPATCHED.sched_getaffinity(0))),
        "machine_memory_bytes": _or_none(
            lambda: UNPATCHED.sysconf("SC_PHYS_PAGES") * UNPATCHED.sysconf("SC_PAGE_SIZE")
        ),
        "load_1min": _or_none(lambda: UNPATCHED.getloadavg()[0]),
    }


def _or_none(read):
    try:
        return read()
    except (OSError, ValueError, AttributeError, TypeError):
        let_through()
        return None


ROOT = "/sys/fs/cgroup"
# Limits seldom change, and reading them takes a file for each enclosing group.
READS_A_LIMIT = 64
# Version 1 writes "no limit" as the largest number of pages.
_NO_LIMIT_BYTES = 1 << 60


class Cgroup:
    """The control groups of this process, and what was read of them."""

    def __init__(self, membership="/proc/self/cgroup", root=ROOT):
        self._reads = 0
        self._limits = {}
        self._stat = None
        self._cpu, self._memory = _groups(membership, root)

    def read(self):
        """Return the limits, and how long the CPU limit throttled this process; None for what is unknown."""
        if self._reads % READS_A_LIMIT == 0:
            self._read_limits()
        self._reads += 1
        return dict(self._limits, throttled_ns=_throttled_ns(self._stat))

    def _read_limits(self):
        """Find the tightest limits: a group's limit holds for all below it. Throttling is read at the limit."""
        cpu = [(limit, group) for limit, group in ((_cpus(group), group) for group in self._cpu) if limit is not None]
        memory = [limit for limit in map(_memory_bytes, self._memory) if limit is not None]
        tightest = min(cpu) if cpu else (None, self._cpu[0] if self._cpu else None)
        self._limits = {"cpu_limit": tightest[0], "memory_limit_bytes": min(memory) if memory else None}
        self._stat = None if tightest[1] is None else os.path.join(tightest[1], "cpu.stat")


def _groups(membership, root):
    """Return the directories of the groups that limit CPUs, and of those that limit memory, innermost first."""
    cpu, memory = [], []
    for line in _text(membership).splitlines():
        _, controllers, path = (line.split(":", 2) + ["", ""])[:3]
        if not controllers:  # version 2; mounted beside version 1, it has a directory of its own
            for mount in (root, os.path.join(root, "unified")):
                cpu += _above(mount, path)
                memory += _above(mount, path)
        elif "cpu" in controllers.split(","):
            cpu += _above(os.path.join(root, "cpu"), path) or _above(os.path.join(root, controllers), path)
        elif "memory" in controllers.split(","):
            memory += _above(os.path.join(root, "memory"), path)
    return cpu, memory


def _above(mount, path):
    """Return the directories from a group's up to the mount's. In a container the mount is the group itself."""
    if not UNPATCHED.isdir(mount):
        return []
    parts = [part for part in path.split("/") if part not in ("", "..")]
    directories = [os.path.join(mount, *parts[:count]) for count in range(len(parts), 0, -1)]
    return [directory for directory in directories if UNPATCHED.isdir(directory)] + [mount]


def _cpus(group):
    """Return how many CPUs a group may use, or None if it is not limited."""
    words = _text(os.path.join(group, "cpu.max")).split()
    if len(words) == 2:
        return _ratio(words[0], words[1])
    quota, period = (_text(os.path.join(group, "cpu.cfs_%s_us" % name)) for name in ("quota", "period"))
    return _ratio(quota, period)


def _ratio(quota, period):
    quota, period = _number(quota), _number(period)
    return quota / period if quota and period else None


def _memory_bytes(group):
    for name in ("memory.max", "memory.limit_in_bytes"):
        limit = _number(_text(os.path.join(group, name)))
        if limit is not None and limit < _NO_LIMIT_BYTES:
            return limit
    return None


def _throttled_ns(stat):
    """Return how long processes of a group were throttled: in us in version 2, in ns in version 1."""
    for line in _text(stat).splitlines() if stat else ():
        name, _, value = line.partition(" ")
        if name in ("throttled_usec", "throttled_time") and _number(value) is not None:
            return _number(value) * (1000 if name == "throttled_usec" else 1)
    return None


def _number(text):
    text = text.strip()
    return int(text) if text.isdigit() else None


def _text(path):
    try:
        return read_file(path).decode("ascii", "replace")
    except OSError:
        let_through()
        return ""


# Of the collections between two samples the longest are written one by one, if they are noticeable.
MOST_PAUSES = 8
LEAST_PAUSE_NS = 1000 * 1000
# Number of clock readings that are searched for them, two per collection.
READINGS = 2048


class _Taking(zip):
    """An iterator whose attribute `taken` takes one more item."""

    taken = property(next)


def collection_callback(*iterators):
    """Return a callback for `gc.callbacks`, of functions of C alone, that takes an item of each iterator at each call.

    Whatever the collector passes to the format, it takes an item.
    """
    return partial(str.format, "{0.taken}", _Taking(*iterators))


class Pauses:
    """Durations of the garbage collections of this interpreter. The collector calls us at the start and end of each."""

    def __init__(self):
        self._total_ns = deque((0,), 1)
        self._recent_ns = deque(maxlen=READINGS)
        self._before_fork_ns = 0
        # Starts are negative, ends positive: their sum is, after each end, the time of all collections.
        unit_ns = UNPATCHED.c_clock_unit_ns
        readings = map(mul, cycle((-unit_ns, unit_ns)), starmap(UNPATCHED.c_clock, repeat(())))
        summed, kept = tee(readings)
        stores = map(self._total_ns.append, accumulate(summed)), map(self._recent_ns.append, kept)
        self._callback = collection_callback(*stores)

    def follow(self):
        """Let the collector call us from now on."""
        gc.callbacks.append(self._callback)

    def forget_parent(self):
        """Start again at 0, in a forked child."""
        self._before_fork_ns = self._total_ns[0]

    def is_followed(self):
        """Return whether the collector still calls us: the job may empty the list."""
        return self._callback in gc.callbacks

    def total_ns(self):
        """Return the total duration of collections."""
        return int(self._total_ns[0] - self._before_fork_ns)

    def longest(self, since_ns):
        """Return start and end, monotonic ns, of the longest collections that ended since then, by time."""
        try:
            readings = self._recent_ns.copy()
        except RuntimeError:  # a collection has begun meanwhile
            let_through()
            return []
        pauses, start_ns = [], None
        for reading_ns in readings:
            if reading_ns < 0:
                start_ns = -reading_ns
            elif start_ns is not None and reading_ns > since_ns and reading_ns - start_ns >= LEAST_PAUSE_NS:
                pauses.append([int(start_ns), int(reading_ns)])
        pauses.sort(key=lambda pause: pause[0] - pause[1])
        return sorted(pauses[:MOST_PAUSES])


PAUSES = Pauses()
