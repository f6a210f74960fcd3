"""Slow a part of the job down by a share of its own time, and write down how long the part and its delays took.

A delay is spent as the part spends its time: as much of it computes as the part's thread did, and the rest sleeps. So
what the part leaves to others, a CPU or the interpreter's lock, is left to them for longer, too.
"""

import threading
import time

from tfprobe_agent.core.recorder import current_recorder
from tfprobe_agent.unpatched import UNPATCHED

from .fixes.calls import without_errors

FILE = "delays.jsonl"
# Lines are at least this far apart.
LINE_NS = 20 * 1000 * 1000
# Shorter sleeps, and shorter computing, are owed until they have added up to this.
LEAST_SLEEP_NS = 1000 * 1000
LEAST_SPIN_NS = 20 * 1000


def delay_of(part, percent, note):
    """Return the delay of a part in this process: the same one for all modules of its fix."""
    if note.state is None:
        note.state = Delay(part, percent, note)
    return note.state


def thread_cpu_ns():
    """Return the CPU time of this thread."""
    if UNPATCHED.thread_time_ns is not None:
        return UNPATCHED.thread_time_ns()
    return int(UNPATCHED.clock_gettime(time.CLOCK_THREAD_CPUTIME_ID) * 1e9)


class Delay:
    """The delay of one part: `percent` of what the part takes. With 0, the part is only timed."""

    def __init__(self, part, percent, note):
        self.part, self.percent, self.note = part, percent, note
        self.lock = threading.Lock()
        self.owed = UNPATCHED.local()
        self._forget(UNPATCHED.getpid())
        self.lasted = without_errors(note, self._lasted)

    def _forget(self, pid):
        self.pid = pid
        self.calls = self.part_ns = self.delay_ns = self.written_ns = 0

    def around(self, original):
        """Return the function with each call of it timed and slowed down. One that raises is not."""

        def slowed(*args, **kwargs):
            began_ns, cpu_ns = UNPATCHED.monotonic_ns(), thread_cpu_ns()
            result = original(*args, **kwargs)
            self.lasted(UNPATCHED.monotonic_ns() - began_ns, thread_cpu_ns() - cpu_ns)
            return result

        return slowed

    def _lasted(self, part_ns, computed_ns):
        """Slow down what has just run once: for so long, of which its thread has computed so long."""
        part_ns = max(part_ns, 0)
        computed_ns = min(max(computed_ns, 0), part_ns)
        delay_ns = self._delay(part_ns - computed_ns, computed_ns) if self.percent else 0
        with self.lock:
            if self.pid != UNPATCHED.getpid():
                self._forget(UNPATCHED.getpid())  # a worker that was forked
            self.calls += 1
            self.part_ns += part_ns
            self.delay_ns += delay_ns
            now_ns = UNPATCHED.monotonic_ns()
            if now_ns - self.written_ns >= LINE_NS:
                if not self.written_ns:
                    self.note.applied()
                self.written_ns = now_ns
                self._write(now_ns)

    def _delay(self, waited_ns, computed_ns):
        """Sleep and compute for the share of these times, with what is owed; return how long that took."""
        owed = self.owed.__dict__
        sleep_ns = owed.get("sleep", 0) + waited_ns * self.percent // 100
        spin_ns = owed.get("spin", 0) + computed_ns * self.percent // 100
        began_ns = now_ns = UNPATCHED.monotonic_ns()
        if sleep_ns >= LEAST_SLEEP_NS:
            UNPATCHED.sleep(sleep_ns / 1e9)
            now_ns = UNPATCHED.monotonic_ns()
            sleep_ns -= now_ns - began_ns
        slept_ns = now_ns - began_ns
        if spin_ns >= LEAST_SPIN_NS:
            end_ns = now_ns + spin_ns
            while now_ns < end_ns:
                now_ns = UNPATCHED.monotonic_ns()
            spin_ns -= now_ns - began_ns - slept_ns
        owed["sleep"], owed["spin"] = sleep_ns, spin_ns
        return now_ns - began_ns

    def _write(self, now_ns):
        line = {"part": self.part, "mono_ns": now_ns, "calls": self.calls}
        line.update(part_ns=self.part_ns, delay_ns=self.delay_ns)
        current_recorder().process_dir.append(FILE, line)
