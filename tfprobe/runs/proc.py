"""Look processes up in /proc. Light: the meter, which is there as long as a job, imports it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

PROC = Path("/proc")
_GONE = (b"Z", b"X")
# By a signal (SIGSTOP, Ctrl-Z), or held by a debugger.
_STOPPED = (b"T", b"t")


class ProcEntry(NamedTuple):
    """A process that is there: since when, in ticks since the boot, and whether it is stopped.

    Ticks do not move when somebody sets the clock; with the pid they name a process for good.
    """

    started_ticks: int
    is_stopped: bool


def look_up(pid: int, proc: Path = PROC) -> ProcEntry | None:
    """Return what /proc/PID/stat says, or None when there is no such process or only its zombie."""
    try:
        stat = (proc / str(pid) / "stat").read_bytes()
        # The command name may hold spaces and parentheses: fields count from the last ")".
        fields = stat[stat.rindex(b")") + 2 :].split()
        return None if fields[0] in _GONE else ProcEntry(int(fields[19]), fields[0] in _STOPPED)
    except (OSError, ValueError, IndexError):
        return None


def started_ticks(pid: int, proc: Path = PROC) -> int | None:
    """Return field 22 of /proc/PID/stat, or None when there is no such process."""
    seen = look_up(pid, proc)
    return None if seen is None else seen.started_ticks


def parent(pid: int, proc: Path = PROC) -> int | None:
    """Return the pid of a process's parent, or None when there is no such process."""
    try:
        stat = (proc / str(pid) / "stat").read_bytes()
        return int(stat[stat.rindex(b")") + 2 :].split()[1])
    except (OSError, ValueError, IndexError):
        return None


def boot_id(proc: Path = PROC) -> str | None:
    """Return the name of this boot of the machine, or None where there is none to read."""
    try:
        return (proc / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return None


def pid_namespace(proc: Path = PROC) -> str | None:
    """Return the name of the namespace our pids are in: a container has one of its own."""
    try:
        return os.readlink(proc / "self/ns/pid")
    except OSError:
        return None


def booted_unix_s(proc: Path = PROC) -> int | None:
    """Return when the machine booted, by its clock of now."""
    try:
        lines = (proc / "stat").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("btime "))
    except (OSError, ValueError, IndexError, StopIteration):
        return None
