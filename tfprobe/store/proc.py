"""Look processes up in /proc. Light: the meter, which is there as long as a job, imports it."""

from __future__ import annotations

from pathlib import Path

PROC = Path("/proc")


def started_ticks(pid: int, proc: Path = PROC) -> int | None:
    """Return field 22 of /proc/PID/stat, or None when there is no such process."""
    try:
        stat = (proc / str(pid) / "stat").read_bytes()
        # The command name may hold spaces and parentheses: fields count from the last ")".
        fields = stat[stat.rindex(b")") + 2 :].split()
        gone = fields[0] in (b"Z", b"X")
        return None if gone else int(fields[19])
    except (OSError, ValueError, IndexError):
        return None
