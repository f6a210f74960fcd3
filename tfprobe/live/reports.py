"""Make the report of a run again and again while it runs, at a bounded cost."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from tfprobe.errors import Missing, NoAnswer
from tfprobe.findings import engine
from tfprobe.findings.engine import Advice
from tfprobe.findings.trials import with_measured
from tfprobe.profile.profile import Profile
from tfprobe.profile.reader.run_reader import RunReader
from tfprobe.profile.reader.traced_steps import costliest_loop
from tfprobe.report.documents.run_report import Report, gather_report
from tfprobe.runs.layout import RunFolder
from tfprobe.runs.liveness import Machine
from tfprobe.runs.trials import trials_of

# What making reports may take of a core: the job, which may need them all, is what matters.
CORE_RATIO = 0.2

# A report is made again and again: of more rows of captures than these, of the newest alone.
MOST_ROWS = 2_000_000

NOTHING_NEW = Missing("nothing is new")


@dataclass(frozen=True, slots=True)
class MadeReport:
    """A report, and when its run was read. It took `took_s` to read what was new and make it."""

    report: Report
    advice: Advice
    at_unix_ns: int
    took_s: float


class Reports:
    """Makes a report where something is new in the run."""

    def __init__(
        self,
        folder: RunFolder,
        here: Machine,
        *,
        rank: int | None = None,
        every_s: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin with nothing read; `clock` counts seconds."""
        self._folder = folder
        self._following = RunReader(folder, here, rank=rank, most_rows=MOST_ROWS)
        self._every_s = every_s
        self._clock = clock
        self._shown: Profile | None = None
        self._began_s = clock()
        self._took_s = 0.0
        self.has_ended = False

    def next(self, watch: Callable[[int, int], None] | None = None) -> MadeReport | Missing:
        """Return the report as it is now, or why there is no new one.

        `watch(done, all)` is told how many new captures have been read. Once `has_ended` is true
        the run is over and the latest report is the last.

        Raises NoAnswer when a run that is over has no process of the rank, UnreadableInput when the
        run is removed.
        """
        self._began_s = self._clock()
        try:
            return self._next(watch)
        finally:
            self._took_s = self._clock() - self._began_s

    def pause_s(self) -> float:
        """Return how long to wait before the next report."""
        free_s = self._began_s + max(self._every_s, self._took_s / CORE_RATIO)
        return max(free_s - self._clock(), 0.0)

    def _next(self, watch: Callable[[int, int], None] | None) -> MadeReport | Missing:
        at_unix_ns = time.time_ns()
        try:
            profile = self._following.refresh(watch)
        except NoAnswer as exc:
            if self._following.has_ended:
                raise
            return Missing(exc.problem)
        self.has_ended = self._following.has_ended
        if profile is self._shown:
            return NOTHING_NEW
        report = gather_report(profile)
        trials = trials_of(profile.run.command, self._folder.root.parent)
        advice = with_measured(
            engine.advise(profile, costliest_loop(self._folder, profile)), trials
        )
        self._shown = profile
        return MadeReport(report, advice, at_unix_ns, self._clock() - self._began_s)
