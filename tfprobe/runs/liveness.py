"""Determine from files and /proc whether a process or a run is running, or how it ended.

A process of this boot is identified by its pid and its start ticks, never by the wall clock, which
may be set while the job runs.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tfprobe.errors import Missing
from tfprobe.runs.layout import ProcessFolder
from tfprobe.runs.manifests import LaunchExit, ProcessManifest, RunManifest
from tfprobe.runs.proc import PROC, ProcEntry, boot_id, booted_unix_s, look_up, pid_namespace
from tfprobe.runs.process_folder.events import signal_to, signals_around
from tfprobe.runs.process_folder.steps_layout import (
    CLOCK_WAS_SET_NS,
    AgentState,
    EndingRecord,
    Header,
)

RUNNING = "running"
# Exists, but suspended by a signal such as SIGSTOP or by a debugger; it may be continued.
STOPPED = "stopped"
FINISHED = "finished"
# By an uncaught exception, or with an exit status other than 0.
FAILED = "failed"
# By a signal from another process of the job, as Pool.terminate and Popen.kill send.
TERMINATED = "terminated"
# By another program, which continues in the same process: os.exec*.
REPLACED = "replaced"
KILLED = "killed"
UNKNOWN = "unknown"
STATES = (RUNNING, STOPPED, FINISHED, FAILED, TERMINATED, REPLACED, KILLED, UNKNOWN)
ENDED = (FINISHED, FAILED, TERMINATED, REPLACED, KILLED)
# States of a process or run that exists: its files may grow.
LIVE = (RUNNING, STOPPED)

NANOSECONDS = 1_000_000_000
NO_SIGN = Missing("neither run.json nor a process says when it was")


@dataclass(frozen=True, slots=True)
class ProcessEntry:
    """A summary of one process. `active_unix_ns` is its last sign of life on disk."""

    folder: ProcessFolder
    manifest: ProcessManifest | Missing
    header: Header | Missing
    steps: int
    state: str
    active_unix_ns: int | Missing = NO_SIGN


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine this code runs on, as far as it determines which pids can be looked up."""

    host: str
    boot_id: str | None
    proc: Path = PROC
    pid_namespace: str | None = None
    # The current time of both clocks. The wall clock can be set, the monotonic clock cannot.
    unix_minus_monotonic_ns: int | None = field(default=None, compare=False)

    def look_up(self, pid: int) -> ProcEntry | None:
        """Return the /proc entry of a process; None if it does not exist or is a zombie."""
        return look_up(pid, self.proc)

    def started_ticks(self, pid: int) -> int | None:
        """Return field 22 of /proc/PID/stat, or None if the process does not exist."""
        seen = self.look_up(pid)
        return None if seen is None else seen.started_ticks

    def clock_was_set_by_ns(self, header: Header, boot_id: str | None) -> int | None:
        """Return how far the wall clock has been set ahead since a process of this boot started.

        0 if the difference may come from reading the two clocks one after the other; None for a
        process of another boot.
        """
        now_ns = self.unix_minus_monotonic_ns
        if now_ns is None or boot_id is None or boot_id != self.boot_id:
            return None
        ahead_ns = now_ns - header.unix_ns(0)
        return ahead_ns if abs(ahead_ns) >= CLOCK_WAS_SET_NS else 0

    def knows(self, host: str, boot_id: str | None, pid_namespace: str | None = None) -> bool:
        """Return whether a pid recorded on that host, boot and namespace can be looked up here."""
        return host == self.host and not (
            _differ(boot_id, self.boot_id) or _differ(pid_namespace, self.pid_namespace)
        )


def this_machine() -> Machine:
    """Return the machine this code runs on."""
    shift_ns = time.time_ns() - time.monotonic_ns()
    return Machine(socket.gethostname(), boot_id(), PROC, pid_namespace(), shift_ns)


def process_state(header: Header | None, manifest: ProcessManifest | None, here: Machine) -> str:
    """Return running, stopped, finished, failed, replaced, killed or unknown.

    killed means that the process is gone and did not record its end: it was ended by a signal or
    with its machine. Whether the job did that itself is known only for the run as a whole: see
    `catalogue`. Without a header the end of a process that is gone is unknown. What a profiler
    service recorded is finished, whatever its process does.
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
    """Return whether a process is known to have ended, in whatever way."""
    if not here.knows(manifest.host, manifest.boot_id, manifest.pid_namespace):
        return _ended_by_reboot(manifest, here)
    seen = here.look_up(manifest.pid)
    return seen is None or manifest.pid_started_ticks not in (None, seen.started_ticks)


def launcher_state(run: RunManifest, here: Machine) -> str:
    """Return running or stopped while the job's first process exists, killed once it is gone.

    unknown if this cannot be determined: on another machine, or if the pid may have been reused. A
    run that `tfprobe capture` wrote is finished: its pid is tfprobe's own.
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
    """Describe where a process that cannot be looked up here runs or ran."""
    if manifest.host != here.host:
        return f"on {manifest.host or 'a host without a name'}, which cannot be inspected from here"
    return f"in another container or boot of {manifest.host}"


def _noted_end(header: Header) -> str | None:
    """Return how a process ended according to its header; None if it recorded no end."""
    if header.ending is EndingRecord.REPLACED:
        return REPLACED
    if header.ending is EndingRecord.NOT_NOTED and header.exit_status is None:
        # For recordings that contain no more than that.
        return FINISHED if header.state is AgentState.FINISHED else None
    if header.exit_status is not None:
        return FAILED if header.exit_status else FINISHED
    return FAILED if header.ending is EndingRecord.EXCEPTION else FINISHED


def may_say_more(header: Header | None) -> bool:
    """Return whether a process that is gone may have recorded more of its end since the read."""
    return header is not None and (_is_leaving(header) or _noted_end(header) is None)


def _is_leaving(header: Header | None) -> bool:
    """Return whether a process that recorded its end may still exist.

    Its status may be about to be written, or not be its own: a fork of C code that calls exit()
    stores its status in its parent's memory.
    """
    if header is None or header.ending is EndingRecord.REPLACED:
        return False
    return header.status_follows or (
        header.ending is EndingRecord.NOT_NOTED and header.exit_status is not None
    )


def _ended_by_reboot(manifest: ProcessManifest | RunManifest, here: Machine) -> bool:
    """Return whether it belongs to an earlier boot of this machine.

    Containers on several machines may share a name: whatever started after our boot, and in another
    boot, is elsewhere. If the clock was set, the state becomes unknown; a running process is never
    reported as killed.
    """
    if manifest.host != here.host or not _differ(manifest.boot_id, here.boot_id):
        return False
    booted_s = booted_unix_s(here.proc)
    return booted_s is not None and manifest.started_unix_ns < booted_s * NANOSECONDS


def _differ(noted: str | None, here: str | None) -> bool:
    return None not in (noted, here) and noted != here


def main_process(manifest: RunManifest, processes: tuple[ProcessEntry, ...]) -> ProcessEntry | None:
    """Return the job's first process if it was recorded; of its programs, the last.

    A program that replaces itself (os.exec) keeps its pid and start ticks.
    """
    found: ProcessEntry | None = None
    latest_ns = -1
    for process in processes:
        facts = process.manifest
        if isinstance(facts, Missing) or facts.parent is not None:
            continue
        if is_of_launch(facts, manifest) and facts.started_unix_ns > latest_ns:
            found, latest_ns = process, facts.started_unix_ns
    return found


def is_of_launch(facts: ProcessManifest, launch: RunManifest) -> bool:
    """Return whether a process is the first of a launch, or a program that replaced it."""
    ticks = (facts.pid_started_ticks, launch.pid_started_ticks)
    return (facts.host, facts.pid) == (launch.host, launch.pid) and (
        None in ticks or ticks[0] == ticks[1]
    )


def ended_process(
    folder: ProcessFolder, header: Header | None, manifest: ProcessManifest | None, here: Machine
) -> str:
    """Return the state of a process; terminated if a signal from its own job ended it."""
    state = process_state(header, manifest, here)
    if state == KILLED and manifest is not None:
        sent = signal_to(manifest, header, signals_around(folder))
        return KILLED if sent is None else TERMINATED
    return state


def run_state(
    known: tuple[RunManifest, ...],
    processes: tuple[ProcessEntry, ...],
    exits: tuple[LaunchExit, ...],
    here: Machine,
) -> str:
    """Return the main process's state if it is known, else what the other processes imply.

    A run is running while any of its processes is, and stopped if all that exist are: if a shell
    waits for a stopped process, that process decides. With several launches, each has a main
    process, and the worst of their ends counts.
    """
    live = {process.state for process in processes}.intersection(LIVE)
    live = live or {launcher_state(each, here) for each in known}.intersection(LIVE)
    if live:
        return RUNNING if RUNNING in live else live.pop()
    ends = [_main_end(each, processes, exits) for each in known]
    if ends and None not in ends:
        worst = (UNKNOWN, KILLED, FAILED, TERMINATED)
        return next((state for state in worst if state in ends), FINISHED)
    return _end_of_others(processes)


def _main_end(
    launch: RunManifest, processes: tuple[ProcessEntry, ...], exits: tuple[LaunchExit, ...]
) -> str | None:
    """Return how the first process of a launch ended; None if unknown.

    It is unknown if its last recorded program was replaced by one that was not recorded.
    """
    main = main_process(launch, processes)
    seen = [each for each in exits if (each.host, each.pid) == (launch.host, launch.pid)]
    if not seen:
        return None if main is None or main.state == REPLACED else main.state
    if seen[-1].signal is not None:
        # Python ends itself with SIGINT after an uncaught KeyboardInterrupt.
        return FAILED if main is not None and main.state == FAILED else KILLED
    return FAILED if seen[-1].status else FINISHED


def _end_of_others(processes: tuple[ProcessEntry, ...]) -> str:
    """Return how a job ended whose first process, such as a shell, was not recorded.

    The job ended well if the process that ended last did, because a shell returns that status;
    otherwise the first process that did not end well decides. Processes that other recorded
    processes started are left out. The recorded program of a process does not show how the process
    ended if another program replaced it.
    """
    states = {process.state for process in processes}
    if UNKNOWN in states or states <= {REPLACED}:
        return UNKNOWN
    pids = {each.manifest.pid for each in processes if not isinstance(each.manifest, Missing)}
    own = _by_end([each for each in processes if not _is_child(each, pids)])
    ends = [each.state for each in own if each.state not in (TERMINATED, REPLACED)]
    if not ends or ends[-1] == FINISHED:
        return FINISHED
    return next(state for state in ends if state != FINISHED)


def _by_end(processes: Sequence[ProcessEntry]) -> list[ProcessEntry]:
    """Sort processes by their ends; within one boot, by the clock that cannot be set."""
    manifests = [each.manifest for each in processes]
    boots = {None if isinstance(manifest, Missing) else manifest.boot_id for manifest in manifests}
    is_one_boot = len(boots) == 1 and None not in boots

    def end_ns(process: ProcessEntry) -> int:
        header = process.header
        if isinstance(header, Missing):
            return 0
        mono_ns = header.last_note_mono_ns
        return mono_ns if is_one_boot else header.unix_ns(mono_ns)

    return sorted(processes, key=end_ns)


def _is_child(process: ProcessEntry, pids: set[int]) -> bool:
    facts = process.manifest
    return not isinstance(facts, Missing) and (facts.parent is not None or facts.ppid in pids)


def why_unknown(
    known: tuple[RunManifest, ...], processes: tuple[ProcessEntry, ...], here: Machine
) -> str:
    for process in processes:
        facts = process.manifest
        if ended_unread(process, here):
            return f"what a process of it, {process.folder.name}, noted of its end cannot be read"
        if process.state == UNKNOWN and not isinstance(facts, Missing):
            return f"a process of it ran {where_it_ran(facts, here)}"
        if process.state == UNKNOWN:
            return f"a process folder, {process.folder.name}, does not say where it ran"
    if not known:
        return "run.json cannot be read, so nothing tells where it ran"
    for launch in known:
        if not here.knows(launch.host, launch.boot_id, launch.pid_namespace):
            return f"it ran {where_it_ran(launch, here)}"
    if processes:
        return "its process replaced itself by a program that was not recorded (os.exec)"
    return "it has ended, and no recorded process shows how"


def ended_unread(process: ProcessEntry, here: Machine) -> bool:
    """Return whether a process has ended, but its record of that cannot be read."""
    facts = process.manifest
    if isinstance(facts, Missing) or process.state != UNKNOWN:
        return False
    return is_gone(facts, here)
