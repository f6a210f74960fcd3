"""Put together what answers about a directory: looks, time use, findings, and their threads."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tfprobe.errors import Missing, UnreadableInput
from tfprobe.live.fleet import Fleet
from tfprobe.live.latest import Latest
from tfprobe.live.metrics.exporter import Exporter
from tfprobe.live.metrics.findings import Findings
from tfprobe.live.metrics.shares import Keeper, is_recent
from tfprobe.live.metrics.subjects import Limits
from tfprobe.profile.snapshots import FleetLook, TimeUse
from tfprobe.runs.layout import ProcessFolder
from tfprobe.runs.liveness import Machine

_SILENT = Missing("it has written nothing lately")


def once(directory: Path, here: Machine, limits: Limits) -> Exporter:
    """Return an exporter for one answer, which reads all captures that it tells of first."""
    latest = Latest(core_ratio=1.0)

    def time_use(folder: ProcessFolder) -> TimeUse:
        is_young = is_recent(folder, within_s=limits.finished_for_s)
        return latest.time_use(folder) if is_young else TimeUse(_SILENT, _SILENT)

    fleet = Fleet(directory, here, latest=time_use)
    return Exporter(_looks(fleet, directory), limits=limits)


@contextmanager
def watched(
    directory: Path,
    here: Machine,
    limits: Limits,
    *,
    advice: Sequence[str] | None,
    complain: Callable[[str], None],
) -> Iterator[Exporter]:
    """Give an exporter for many answers, and end its threads.

    `advice` is the command that finds something in a run, None to ask for no findings.
    """
    keeper = Keeper(Latest().time_use, partial(is_recent, within_s=limits.finished_for_s))
    findings = None if advice is None else Findings(advice)
    fleet = Fleet(directory, here, latest=keeper.time_use)
    look = _looks(fleet, directory)
    exporter = Exporter(look, limits=limits, findings=findings, complain=complain)
    workers = [each for each in (keeper, findings) if each is not None]
    for worker in workers:
        worker.start()
    try:
        yield exporter
    finally:
        for worker in workers:
            worker.stop()


def _looks(fleet: Fleet, directory: Path) -> Callable[[], FleetLook]:
    """Return what makes a look, and fails where the directory is not there or cannot be read."""

    def look() -> FleetLook:
        found = fleet.look()
        if not os.path.isdir(directory):
            raise UnreadableInput(f"{directory} is gone.")
        if found.problems:
            raise UnreadableInput(f"{found.directory} cannot be read: {found.problems[0].what}.")
        return found

    return look
