"""What the control group of this process allows it, in both versions of the kernel's interface."""

import os

from .interruptions import let_through
from .originals import ORIGINAL, read_file

ROOT = "/sys/fs/cgroup"
# A limit seldom changes, and looking takes a file for each group above ours.
READS_A_LIMIT = 64
# Version 1 writes "no limit" as the largest number of pages.
_NO_LIMIT_BYTES = 1 << 60


class Cgroup:
    """The groups of this process, and what was read of them."""

    def __init__(self, membership="/proc/self/cgroup", root=ROOT):
        self._reads = 0
        self._limits = {}
        self._stat = None
        self._cpu, self._memory = _groups(membership, root)

    def read(self):
        """Return the limits, and how long the CPU's held this process back; None for what there is not."""
        if self._reads % READS_A_LIMIT == 0:
            self._read_limits()
        self._reads += 1
        return dict(self._limits, throttled_ns=_throttled_ns(self._stat))

    def _read_limits(self):
        """Find the tightest limits: those of a group hold for all below it. Throttling is told where the limit is."""
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
        if not controllers:  # version 2; mounted beside version 1, it is in a directory of its own
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
    if not ORIGINAL.isdir(mount):
        return []
    parts = [part for part in path.split("/") if part not in ("", "..")]
    found = [os.path.join(mount, *parts[:count]) for count in range(len(parts), 0, -1)]
    return [directory for directory in found if ORIGINAL.isdir(directory)] + [mount]


def _cpus(group):
    """Return how many CPUs a group may use up, or None where it is not limited."""
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
    """Return how long processes of a group waited for its limit: in us in version 2, in ns in version 1."""
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
