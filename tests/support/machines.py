"""Make up machines: a /proc with the processes that a test wants to be there."""

from __future__ import annotations

from pathlib import Path

from tests.support.rundir import BOOT_ID, HOST, UNIX_NS
from tfprobe.runs.liveness import NANOSECONDS, Machine

NAMESPACE = "pid:[7]"
# An hour before the runs that rundir writes.
BOOTED_S = UNIX_NS // NANOSECONDS - 3600


def machine(tmp_path: Path, *, booted_s: int = BOOTED_S, **ticks_by_pid: int) -> Machine:
    """A machine on which exactly the given pids (as `p4711`) live, with these start ticks."""
    proc = tmp_path / "proc"
    proc.mkdir(exist_ok=True)
    (proc / "stat").write_text(f"cpu 1 2 3\nbtime {booted_s}\n")
    for pid, ticks in ticks_by_pid.items():
        live(proc, int(pid[1:]), ticks)
    return Machine(HOST, BOOT_ID, proc, NAMESPACE)


def live(proc: Path, pid: int, ticks: int, letter: str = "S") -> None:
    """Let a process be there, in the state of that letter, or change what it is."""
    (proc / str(pid)).mkdir(exist_ok=True)
    # A command name with spaces and parentheses, as some jobs have.
    stat = f"{pid} (py (thon) S 1) {letter} " + "0 " * 18 + f"{ticks} 0 0\n"
    (proc / str(pid) / "stat").write_text(stat)
