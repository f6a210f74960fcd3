"""Decide whether a recorded process runs, is stopped, or how it ended: from its files and /proc.

No wall clock is asked about a process of this boot: a pid and its start ticks name it for good, and
somebody may set the clock while the job runs.
"""

from __future__ import annotations

import socket
import time
from dataclasses import dataclass, field
from pathlib import Path

from tfprobe.runs.manifests import ProcessManifest, RunManifest
from tfprobe.runs.proc import PROC, ProcEntry, boot_id, booted_unix_s, look_up, pid_namespace
from tfprobe.runs.process_folder.steps_layout import (
    CLOCK_WAS_SET_NS,
    AgentState,
    EndingRecord,
    Header,
)

RUNNING = "running"
# There, and held by a signal such as SIGSTOP or by a debugger: it will go on when it is let.
STOPPED = "stopped"
FINISHED = "finished"
# By an exception that nobody caught, or with another exit status than 0.
FAILED = "failed"
# By a signal that another process of the job sent, as Pool.terminate and Popen.kill do.
TERMINATED = "terminated"
# By another program, which goes on in the same process: os.exec*.
REPLACED = "replaced"
KILLED = "killed"
UNKNOWN = "unknown"
STATES = (RUNNING, STOPPED, FINISHED, FAILED, TERMINATED, REPLACED, KILLED, UNKNOWN)
ENDED = (FINISHED, FAILED, TERMINATED, REPLACED, KILLED)
# Of a process or run that is there: its files may grow.
LIVE = (RUNNING, STOPPED)

NANOSECONDS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine this code runs on, as far as it tells which pids it can look up."""

    host: str
    boot_id: str | None
    proc: Path = PROC
    pid_namespace: str | None = None
    # Now, of its two clocks. Somebody may set the one, and nobody the other.
    unix_minus_monotonic_ns: int | None = field(default=None, compare=False)

    def look_up(self, pid: int) -> ProcEntry | None:
        """Return what there is to see of a process; None when there is none, or its zombie."""
        return look_up(pid, self.proc)

    def started_ticks(self, pid: int) -> int | None:
        """Return field 22 of /proc/PID/stat, or None when there is no such process."""
        seen = self.look_up(pid)
        return None if seen is None else seen.started_ticks

    def clock_was_set_by_ns(self, header: Header, boot_id: str | None) -> int | None:
        """Return how far the wall clock is ahead of what a process of this boot knew; 0 where that
        may be the reading of two clocks one after the other, None of a process of another boot.
        """
        now_ns = self.unix_minus_monotonic_ns
        if now_ns is None or boot_id is None or boot_id != self.boot_id:
            return None
        ahead_ns = now_ns - header.unix_ns(0)
        return ahead_ns if abs(ahead_ns) >= CLOCK_WAS_SET_NS else 0

    def knows(self, host: str, boot_id: str | None, pid_namespace: str | None = None) -> bool:
        """Say whether a pid noted on that host, boot and namespace can be looked up here."""
        return host == self.host and not (
            _differ(boot_id, self.boot_id) or _differ(pid_namespace, self.pid_namespace)
        )


def this_machine() -> Machine:
    """Return the machine this code runs on."""
    shift_ns = time.time_ns() - time.monotonic_ns()
    return Machine(socket.gethostname(), boot_id(), PROC, pid_namespace(), shift_ns)


def process_state(header: Header | None, manifest: ProcessManifest | None, here: Machine) -> str:
    """Return running, stopped, finished, failed, replaced, killed or unknown.

    killed means gone without a note of its own: by a signal or with its machine; whether that was
    the job's own doing only the run can tell: see `catalogue`. Without a header nothing tells how
    one that is gone ended. What a profiler service recorded is finished, whatever its process does.
    """
    if manifest is not None and manifest.service is not None:
        return FINISHED
    noted = None if header is None else _noted_end(header)
    if manifest is None:
        return noted or UNKNOWN
    if noted is not None and not _is_leaving(header):
        return noted
    if is_gone(manifest, here):
        return noted or (UNKNOWN if header is None else KILLED)
    if not here.knows(manifest.host, manifest.boot_id, manifest.pid_namespace):
        return noted or UNKNOWN
    seen = here.look_up(manifest.pid)
    return STOPPED if seen is not None and seen.is_stopped else RUNNING


def is_gone(manifest: ProcessManifest, here: Machine) -> bool:
    """Say whether a process is known to be over, however it ended."""
    if not here.knows(manifest.host, manifest.boot_id, manifest.pid_namespace):
        return _ended_by_reboot(manifest, here)
    seen = here.look_up(manifest.pid)
    return seen is None or manifest.pid_started_ticks not in (None, seen.started_ticks)


def launcher_state(run: RunManifest, here: Machine) -> str:
    """Return running or stopped while the job's first process is there, killed when it is gone.

    unknown where nobody can tell: another machine, or a pid that is there and may be another's. A
    run that `tfprobe capture` wrote is finished: the pid in it is tfprobe's own.
    """
    if run.services:
        return FINISHED
    if not here.knows(run.host, run.boot_id, run.pid_namespace):
        return KILLED if _ended_by_reboot(run, here) else UNKNOWN
    seen = here.look_up(run.pid)
    if seen is None or run.pid_started_ticks not in (None, seen.started_ticks):
        return KILLED
    if run.pid_started_ticks is None:
        return UNKNOWN
    return STOPPED if seen.is_stopped else RUNNING


def where_it_ran(manifest: ProcessManifest | RunManifest, here: Machine) -> str:
    """Say where a process is, or was, that cannot be looked up here."""
    if manifest.host != here.host:
        return f"on {manifest.host or 'a host without a name'}, which cannot be inspected from here"
    return f"in another container or boot of {manifest.host}"


def _noted_end(header: Header) -> str | None:
    """Return how it ended by its own word; None of one that has noted no end."""
    if header.ending is EndingRecord.REPLACED:
        return REPLACED
    if header.ending is EndingRecord.NOT_NOTED and header.exit_status is None:
        # Of recordings that have no more than that.
        return FINISHED if header.state is AgentState.FINISHED else None
    if header.exit_status is not None:
        return FAILED if header.exit_status else FINISHED
    return FAILED if header.ending is EndingRecord.EXCEPTION else FINISHED


def may_say_more(header: Header | None) -> bool:
    """Say whether a process that is gone may have noted more of its end than was read before."""
    return header is not None and (_is_leaving(header) or _noted_end(header) is None)


def _is_leaving(header: Header | None) -> bool:
    """Say whether one that noted its end may be there still: its status is to come, or not its own.

    A fork of C code that calls exit() stores its status in its parent's memory.
    """
    if header is None or header.ending is EndingRecord.REPLACED:
        return False
    return header.status_follows or (
        header.ending is EndingRecord.NOT_NOTED and header.exit_status is not None
    )


def _ended_by_reboot(manifest: ProcessManifest | RunManifest, here: Machine) -> bool:
    """Say whether it is of an earlier boot of this machine.

    Containers on several machines may have one name: what started after our boot, and in another,
    is elsewhere. A clock that was set makes this unknown, never a running process killed.
    """
    if manifest.host != here.host or not _differ(manifest.boot_id, here.boot_id):
        return False
    booted_s = booted_unix_s(here.proc)
    return booted_s is not None and manifest.started_unix_ns < booted_s * NANOSECONDS


def _differ(noted: str | None, here: str | None) -> bool:
    return None not in (noted, here) and noted != here
