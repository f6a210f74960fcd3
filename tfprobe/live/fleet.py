"""Look at all runs below a directory again and again: they appear, run, end and vanish."""

from __future__ import annotations

import os
from pathlib import Path

from tfprobe.errors import Missing
from tfprobe.live.moment import Clocks
from tfprobe.live.watched_run import LatestTimeUse, WatchedRun
from tfprobe.profile.profile import Problem
from tfprobe.profile.snapshots import FleetLook, RunLook
from tfprobe.runs.layout import RunFolder
from tfprobe.runs.liveness import Machine
from tfprobe.runs.process_folder.file_cache import Listing

NANOSECONDS = 1_000_000_000


class Fleet:
    """The runs of a directory, or the run that it is itself, and what has been read of them.

    Not for several threads at once.
    """

    def __init__(
        self,
        directory: Path,
        here: Machine,
        *,
        latest: LatestTimeUse | None = None,
        clocks: Clocks | None = None,
    ) -> None:
        """Begin with nothing read; `latest` gives where the time of a process goes."""
        self._directory = directory
        self._here = here
        self._latest = latest
        self._clocks = clocks or Clocks()
        self._listing = Listing(directory)
        self._runs: dict[Path, WatchedRun] = {}

    def look(self) -> FleetLook:
        """Return what the files say now; what cannot be read is a problem, or Missing.

        A directory that is not there has no runs; it may come.
        """
        now_s = self._clocks.mono_ns() / NANOSECONDS
        at_unix_ns = self._clocks.unix_ns()
        names = self._listing.names(now_s)
        self._meet(() if isinstance(names, Missing) else names)
        looks = [(run, run.look(now_s)) for run in self._runs.values()]
        found = [(_started_ns(run, look), look) for run, look in looks if look is not None]
        newest_first = sorted(found, key=lambda each: (each[0], each[1].run.id), reverse=True)
        return FleetLook(
            directory=str(self._directory),
            at_unix_ns=at_unix_ns,
            runs=tuple(look for _, look in newest_first),
            problems=(Problem(".", names.reason),) if isinstance(names, Missing) else (),
        )

    def _meet(self, names: tuple[str, ...]) -> None:
        """Find out which runs there are."""
        alone = RunFolder(self._directory)
        shown = (name for name in names if not name.startswith("."))
        roots = [self._directory] if alone.is_run() else [self._directory / n for n in shown]
        known = self._runs
        self._runs = {}
        for root in roots:
            run = known.get(root)
            if run is None and RunFolder(root).is_run():
                run = WatchedRun(RunFolder(root), self._here, self._clocks, self._latest)
            if run is not None:
                self._runs[root] = run


def _started_ns(run: WatchedRun, look: RunLook) -> int:
    if not isinstance(look.started_unix_ns, Missing):
        return look.started_unix_ns
    try:
        return os.stat(run.folder.root).st_mtime_ns
    except OSError:
        return 0
