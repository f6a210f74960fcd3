"""Look at all runs at most once a second, however many ask. See live.fleet for what a look is."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tfprobe.live.breakdown_cache import BreakdownCache
from tfprobe.live.watched_runs import Fleet
from tfprobe.profile.snapshots import FleetSnapshot
from tfprobe.runs.layout import RunFolder
from tfprobe.runs.liveness import Machine
from tfprobe.web.run_cache import is_inside

# A look of those who wait for news comes once a second, and is for all who ask until the next.
FRESH_S = 0.9


class Looks:
    """Looks for several threads at once."""

    def __init__(
        self, directory: Path, here: Machine, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Begin with nothing read. `clock` counts seconds."""
        self._directory = directory
        self._fleet = Fleet(directory, here, latest=BreakdownCache().time_use)
        self._clock = clock
        self._looking = threading.Lock()
        self._last: FleetSnapshot | None = None
        self._looked_at_s = 0.0

    def look(self) -> FleetSnapshot:
        """Return how all runs stand now; those that a link leads to elsewhere are left out."""
        with self._looking:
            if self._last is None or self._clock() >= self._looked_at_s + FRESH_S:
                self._looked_at_s = self._clock()
                self._last = self._look()
            return self._last

    def _look(self) -> FleetSnapshot:
        look = self._fleet.look()
        alone = RunFolder(self._directory).is_run()
        shown = (run for run in look.runs if alone or self._is_inside(run.run.directory))
        return replace(look, runs=tuple(shown))

    def _is_inside(self, run: str) -> bool:
        return is_inside(Path(run), self._directory)
