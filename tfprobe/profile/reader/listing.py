"""Turn the runs of a directory into lines of a listing. Reads no capture."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tfprobe.errors import Missing
from tfprobe.profile.profile import UNNAMED
from tfprobe.profile.snapshots import RunLine
from tfprobe.runs.catalogue import RunEntry, list_runs
from tfprobe.runs.directory_tree import disk_bytes
from tfprobe.runs.liveness import Machine
from tfprobe.runs.manifests import RunManifest


def load(directory: Path, here: Machine) -> tuple[RunLine, ...]:
    """Return the runs of a directory, newest first, their sizes not measured."""
    return tuple(line(entry) for entry in list_runs(directory, here))


def line(entry: RunEntry) -> RunLine:
    """Return the line of one run, its size not measured."""
    facts = entry.manifest
    known = facts if isinstance(facts, RunManifest) else None
    lost = facts if isinstance(facts, Missing) else Missing("run.json does not say")
    return RunLine(
        id=entry.folder.id,
        directory=str(entry.folder.root),
        command=known.command if known else lost,
        started=known.started if known else lost,
        host=known.host if known else lost,
        processes=len(entry.processes),
        steps=entry.steps,
        state=entry.state,
        user=known.user if known else lost,
        hosts=entry.hosts,
        active_unix_ns=entry.active_unix_ns,
        name=(known and known.name) or UNNAMED,
        tags=known.tags if known else (),
    )


def measured(run: RunLine) -> RunLine:
    """Return the line with what the run occupies on disk."""
    return replace(run, size_bytes=disk_bytes(Path(run.directory)))
