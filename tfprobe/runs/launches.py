"""What launches after the first, and launchers that stayed, have written into their run."""

from __future__ import annotations

import os
from collections.abc import Sequence

from tfprobe.errors import UnreadableInput
from tfprobe.runs.layout import RunFolder
from tfprobe.runs.manifests import LaunchExit, RunManifest, read_exit, read_run

# A launch a rank; more than that somebody has put there.
MOST = 100_000
EXIT_SUFFIX = ".exit.json"


class Launches:
    """The records in `launches/` of a run. Each is written once, so each is read once."""

    def __init__(self, folder: RunFolder) -> None:
        """Begin with nothing read."""
        self._directory = folder.launches
        self._read: dict[str, RunManifest | LaunchExit | None] = {}

    def known(self, names: Sequence[str] | None = None) -> tuple[RunManifest, ...]:
        """Return the launches that there are now, by name; what is no record of one is left out.

        `names` is what is in the directory, where that is known already.
        """
        found = self._records(names)
        return tuple(record for record in found if isinstance(record, RunManifest))

    def exits(self, names: Sequence[str] | None = None) -> tuple[LaunchExit, ...]:
        """Return how launches ended whose launchers stayed to see it."""
        return tuple(each for each in self._records(names) if isinstance(each, LaunchExit))

    def _records(self, names: Sequence[str] | None) -> list[RunManifest | LaunchExit | None]:
        names = self._names() if names is None else names[:MOST]
        for name in names:
            if name not in self._read and name.endswith(".json") and not name.startswith("."):
                self._read[name] = self._one(name)
        return [self._read.get(name) for name in names]

    def _names(self) -> list[str]:
        try:
            return sorted(os.listdir(self._directory))[:MOST]
        except OSError:
            return []  # the usual case: a single launch

    def _one(self, name: str) -> RunManifest | LaunchExit | None:
        path = self._directory / name
        try:
            return read_exit(path) if name.endswith(EXIT_SUFFIX) else read_run(path)
        except UnreadableInput:
            return None
