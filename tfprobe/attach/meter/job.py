"""Tell whether a job is still there: its first process, or any that the agent recorded."""

from __future__ import annotations

import json
import os
from pathlib import Path

from tfprobe.runs.layout import RunFolder
from tfprobe.runs.proc import PROC, started_ticks
from tfprobe.runs.safe_files import content_of


class Job:
    """The processes of a run on this host. A process is its pid and when it started."""

    def __init__(self, folder: RunFolder, host: str, pid: int, proc: Path = PROC) -> None:
        """Begin with the job's first process, which must be there."""
        self._folder = folder
        self._host = host
        self._proc = proc
        ticks = started_ticks(pid, proc)
        self._alive: dict[int, int] = {} if ticks is None else {pid: ticks}
        self._seen: set[str] = set()

    def has_run_directory(self) -> bool:
        """Say whether there is still something to write into."""
        return os.path.isdir(self._folder.root)

    def is_running(self) -> bool:
        """Say whether any known process lives. Cheap: a small file for each."""
        self._alive = {
            pid: ticks
            for pid, ticks in self._alive.items()
            if started_ticks(pid, self._proc) == ticks
        }
        return bool(self._alive)

    def look_for_more(self) -> None:
        """Get to know the processes that have been recorded since."""
        for process in self._folder.processes_of(self._host):
            if process.name not in self._seen and os.path.exists(process.manifest):
                self._seen.add(process.name)
                self._meet(process.manifest)

    def _meet(self, manifest: Path) -> None:
        try:
            document = json.loads(content_of(manifest))
            pid, ticks = document["pid"], document["pid_started_ticks"]
        except (OSError, ValueError, LookupError, TypeError):
            return
        if isinstance(pid, int) and isinstance(ticks, int):
            self._alive[pid] = ticks
