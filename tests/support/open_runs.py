"""Open profiles that are made up, as the pages open runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tfprobe.profile.profile import Profile
from tfprobe.profile.reader.run_reader import RunReader
from tfprobe.runs.layout import RunFolder
from tfprobe.runs.liveness import Machine
from tfprobe.web.opened import OpenRun, Reading

NOWHERE = Path("/nowhere/r1")


class Told(RunReader):
    """A following of a run that is as it was told."""

    def __init__(self, profile: Profile) -> None:
        """Have it read already."""
        super().__init__(RunFolder(NOWHERE), Machine("", ""))
        self._told = profile

    def refresh(self, watch: Callable[[int, int], None] | None = None) -> Profile:
        """Return what was told."""
        return self._told


class ToldRun(OpenRun):
    """A run that is as it was told, of which no file is there."""

    def __init__(
        self, profile: Profile, *, sibling: Callable[[str], OpenRun] | None = None
    ) -> None:
        """Have it read already, with and without its captures."""
        super().__init__(RunFolder(NOWHERE), Machine("", ""), sibling=sibling)
        self._following = Told(profile)
        self.early = Reading(Told(replace(profile.only(()), problems=())))
