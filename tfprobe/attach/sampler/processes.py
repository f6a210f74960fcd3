"""Find the Python processes of a job on this host, and the folder of each."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tfprobe.runs.layout import ProcessFolder, RunFolder
from tfprobe.runs.proc import PROC, parent, started_ticks
from tfprobe.runs.process_folder.events import interpreter_log
from tfprobe.runs.safe_files import content_of

# Limit on the number of ancestors of a process: no job nests deeper.
_MOST_ANCESTORS = 64


@dataclass(frozen=True, slots=True)
class JobInterpreter:
    """A Python interpreter of the job: its pid, when the pid started, and when Python started.

    A process that replaces itself by exec becomes another interpreter with the same pid and ticks.
    """

    pid: int
    started_ticks: int
    since_unix_ns: int


@dataclass(frozen=True, slots=True)
class _Recorded:
    """The contents of a process folder's manifest."""

    folder: ProcessFolder
    pid: int
    started_ticks: int
    started_unix_ns: int
    is_fork: bool


class JobProcesses:
    """The processes of one launch on this host."""

    def __init__(
        self, run: RunFolder, host: str, pid: int, *, is_shared: bool, proc: Path = PROC
    ) -> None:
        """Start with the job's first process; of a shared run, include only its descendants."""
        self.run = run
        self._host = host
        self._proc = proc
        self._is_shared = is_shared
        self._first = (pid, started_ticks(pid, proc))
        self._log = interpreter_log(run.interpreters)
        self._ours = {pid}
        self._recorded: dict[str, _Recorded] = {}
        # The start times of each process's interpreters.
        self._since: dict[tuple[int, int], list[int]] = {}
        self._forks: list[_Recorded] = []
        self._others: set[int] = set()

    def first_is_running(self) -> bool:
        """Return whether the first process of the job exists."""
        pid, ticks = self._first
        return ticks is not None and started_ticks(pid, self._proc) == ticks

    def is_running(self, interpreter: JobInterpreter) -> bool:
        """Return whether the process of an interpreter exists."""
        return started_ticks(interpreter.pid, self._proc) == interpreter.started_ticks

    def count_of_others(self) -> int:
        """Return roughly how many interpreters of other launches run on this host."""
        self._others = {pid for pid in self._others if started_ticks(pid, self._proc) is not None}
        return len(self._others)

    def new_interpreters(self) -> Iterator[JobInterpreter]:
        """Yield the interpreters that have started since the last call."""
        for line in self._log.read().things:
            if line.host == self._host:
                yield from self._met(line.pid, line.started_unix_ns)

    def new_forks(self) -> Iterator[JobInterpreter]:
        """Yield the forked children that got a folder since the last call."""
        self._look_for_folders()
        forks, self._forks = self._forks, []
        for fork in forks:
            if started_ticks(fork.pid, self._proc) == fork.started_ticks:
                yield from self._met(fork.pid, fork.started_unix_ns)

    def folder_of(self, interpreter: JobInterpreter) -> ProcessFolder | None:
        """Return the folder that an interpreter records into; None if it has none yet."""
        self._look_for_folders()
        key = (interpreter.pid, interpreter.started_ticks)
        for recorded in self._recorded.values():
            if (recorded.pid, recorded.started_ticks) == key:
                started_ns = recorded.started_unix_ns
                # The interpreter records both times while it starts.
                nearest = min(self._since[key], key=lambda since_ns: abs(since_ns - started_ns))
                if nearest == interpreter.since_unix_ns:
                    return recorded.folder
        return None

    def _met(self, pid: int, since_unix_ns: int) -> Iterator[JobInterpreter]:
        ticks = started_ticks(pid, self._proc)
        if ticks is None:
            return
        if self._is_shared and not self._is_ours(pid):
            self._others.add(pid)
            return
        self._ours.add(pid)
        self._since.setdefault((pid, ticks), []).append(since_unix_ns)
        yield JobInterpreter(pid, ticks, since_unix_ns)

    def _is_ours(self, pid: int) -> bool:
        for _ in range(_MOST_ANCESTORS):
            if pid in self._ours:
                return True
            above = parent(pid, self._proc)
            if above is None or above <= 1:
                return False
            pid = above
        return False

    def _look_for_folders(self) -> None:
        for folder in self.run.processes_of(self._host):
            if folder.name not in self._recorded and os.path.exists(folder.manifest):
                recorded = _recorded(folder)
                if recorded is not None:
                    self._recorded[folder.name] = recorded
                    # No interpreter starts in a fork: only its folder reveals it.
                    self._forks += [recorded] if recorded.is_fork else []


def _recorded(folder: ProcessFolder) -> _Recorded | None:
    try:
        document = json.loads(content_of(folder.manifest))
        return _Recorded(
            folder,
            int(document["pid"]),
            int(document["pid_started_ticks"]),
            int(document["started_unix_ns"]),
            is_fork=document.get("interpreter_pid", document["pid"]) != document["pid"],
        )
    except (OSError, ValueError, LookupError, TypeError):
        return None  # incomplete, of another version, or of another pid namespace
