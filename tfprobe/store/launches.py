"""What the launches after the first have written into the run that they share."""

from __future__ import annotations

import os
from collections.abc import Sequence

from tfprobe.errors import UnreadableInput
from tfprobe.store.layout import RunFolder
from tfprobe.store.manifests import RunManifest, read_run

# A launch a rank; more than that somebody has put there.
MOST = 100_000


class Launches:
    """The records in `launches/` of a run. Each is written once, so each is read once."""

    def __init__(self, folder: RunFolder) -> None:
        """Begin with nothing read."""
        self._directory = folder.launches
        self._read: dict[str, RunManifest | None] = {}

    def known(self, names: Sequence[str] | None = None) -> tuple[RunManifest, ...]:
        """Return the launches that there are now, by name; what is no record of one is left out.

        `names` is what is in the directory, where that is known already.
        """
        names = self._names() if names is None else names[:MOST]
        for name in names:
            if name not in self._read and name.endswith(".json") and not name.startswith("."):
                self._read[name] = self._one(name)
        found = (self._read.get(name) for name in names)
        return tuple(manifest for manifest in found if manifest is not None)

    def _names(self) -> list[str]:
        try:
            return sorted(os.listdir(self._directory))[:MOST]
        except OSError:
            return []  # the usual case: a single launch

    def _one(self, name: str) -> RunManifest | None:
        try:
            return read_run(self._directory / name)
        except UnreadableInput:
            return None
