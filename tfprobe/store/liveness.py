"""Decide whether a recorded process is running, finished or killed, from its files and /proc."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from pathlib import Path

from tfprobe.store.manifests import ProcessManifest, RunManifest
from tfprobe.store.proc import PROC, started_ticks
from tfprobe.store.steps import AgentState, Header

RUNNING = "running"
FINISHED = "finished"
KILLED = "killed"
UNKNOWN = "unknown"

# The kernel's start times have 10 ms ticks; run.json is written a moment after the start.
START_TOLERANCE_S = 2.0
NANOSECONDS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine this code runs on, as far as it tells which pids it can look up."""

    host: str
    boot_id: str | None
    proc: Path = PROC

    def started_ticks(self, pid: int) -> int | None:
        """Return field 22 of /proc/PID/stat, or None when there is no such process."""
        return started_ticks(pid, self.proc)

    def knows(self, host: str, boot_id: str | None) -> bool:
        """Say whether a pid noted on that host and boot can be looked up here."""
        if boot_id is None or self.boot_id is None:
            return host == self.host
        return host == self.host and boot_id == self.boot_id


def this_machine() -> Machine:
    """Return the machine this code runs on."""
    try:
        boot_id = (PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        boot_id = None
    return Machine(socket.gethostname(), boot_id)


def process_state(header: Header | None, manifest: ProcessManifest | None, here: Machine) -> str:
    """Return running, finished, killed or unknown.

    killed means gone without its exit hooks: by a signal, os._exit, or a lost machine.
    """
    if header is not None and header.state is AgentState.FINISHED:
        return FINISHED
    if manifest is None:
        return UNKNOWN
    if not here.knows(manifest.host, manifest.boot_id):
        rebooted = manifest.host == here.host and None not in (manifest.boot_id, here.boot_id)
        return KILLED if rebooted else UNKNOWN
    ticks = here.started_ticks(manifest.pid)
    same = ticks is not None and manifest.pid_started_ticks in (None, ticks)
    return RUNNING if same else KILLED


def launcher_is_alive(run: RunManifest, here: Machine) -> bool | None:
    """Say whether the job's first process still exists; None when it cannot be looked up here."""
    if not here.knows(run.host, run.boot_id):
        return None
    ticks = here.started_ticks(run.pid)
    if ticks is None:
        return False
    booted_s = _booted_s(here.proc)
    if booted_s is None:
        return True
    started_s = booted_s + ticks / os.sysconf("SC_CLK_TCK")
    # The launcher execs the command, so the job is older than run.json: a younger one has
    # merely been given the same pid.
    return started_s <= run.started_unix_ns / NANOSECONDS + START_TOLERANCE_S


def _booted_s(proc: Path) -> int | None:
    try:
        lines = (proc / "stat").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("btime "))
    except (OSError, ValueError, IndexError, StopIteration):
        return None
