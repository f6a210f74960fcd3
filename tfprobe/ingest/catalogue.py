"""Turn the runs of a directory into lines of a listing."""

from __future__ import annotations

from pathlib import Path

from tfprobe.errors import Missing
from tfprobe.model.catalogue import RunLine
from tfprobe.store.catalogue import RunEntry, list_runs
from tfprobe.store.liveness import Machine
from tfprobe.store.manifests import RunManifest


def load(directory: Path, here: Machine) -> tuple[RunLine, ...]:
    """Return the runs of a directory, newest first."""
    return tuple(_line(entry) for entry in list_runs(directory, here))


def _line(entry: RunEntry) -> RunLine:
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
    )
