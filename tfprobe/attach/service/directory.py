"""Write the run directory of what services recorded: whole under its name, or not at all."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tfprobe
from tfprobe.attach.service.client import Address
from tfprobe.errors import UsageError
from tfprobe.launch import environ, prepare
from tfprobe.launch.run_directory import write_file
from tfprobe.runs import agent_files, proc
from tfprobe.runs.layout import TEMPORARY_PREFIX, ProcessFolder, RunFolder

_NAME_LENGTH = 40


@dataclass(frozen=True, slots=True)
class ServiceRecording:
    """What one service recorded: when, and its XSpace with so many whole steps."""

    address: Address
    started_unix_ns: int
    duration_ns: int
    content: bytes
    steps: int


@dataclass(frozen=True, slots=True)
class Draft:
    """A run directory under a name that readers ignore."""

    folder: RunFolder
    id: str
    started_unix_ns: int


def draft(output: Path, first: Address) -> Draft:
    """Make one in the directory of all runs.

    Raises UsageError where it cannot be made.
    """
    now_ns = time.time_ns()
    name = re.sub(r"[^A-Za-z0-9._]+", "-", f"{first.host}-{first.port}").strip("-.")
    run_id = prepare.run_id(name[-_NAME_LENGTH:], now_ns)
    path = environ.absolute(output) / f"{TEMPORARY_PREFIX}{run_id}"
    try:
        os.makedirs(output, mode=0o700, exist_ok=True)
        path.mkdir(0o700)
    except OSError as exc:
        raise _refused(output, exc) from exc
    return Draft(RunFolder(path), run_id, now_ns)


def keep(
    made: Draft, recordings: Sequence[ServiceRecording], command: Sequence[str]
) -> tuple[RunFolder, tuple[ProcessFolder, ...]]:
    """Write what was recorded, and give the run its name; return it and the folders of processes.

    Raises UsageError where it cannot be written.
    """
    root = made.folder.root
    final = RunFolder(root.with_name(made.id))
    try:
        folders = [
            _write_process(made.folder, recording, rank, len(recordings))
            for rank, recording in enumerate(recordings)
        ]
        _write_json(made.folder.manifest, _run(made, recordings, command))
        root.rename(final.root)
    except OSError as exc:
        raise _refused(final.root, exc) from exc
    places = (folder.root.relative_to(root) for folder in folders)
    return final, tuple(ProcessFolder(final.root / place) for place in places)


def discard(made: Draft) -> None:
    """Remove the draft, if it still exists."""
    shutil.rmtree(made.folder.root, ignore_errors=True)


def _write_process(run: RunFolder, item: ServiceRecording, rank: int, world: int) -> ProcessFolder:
    name = f"{item.address.port}-{item.started_unix_ns // 10**6}"
    folder = run.process(item.address.host, name)
    folder.captures.mkdir(0o700, parents=True)
    folder.root.parent.chmod(0o700)
    folder.root.chmod(0o700)
    write_file(folder.trace, item.content)
    _write_json(folder.manifest, _process(item, rank, world))
    return folder


def _run(
    made: Draft, recordings: Sequence[ServiceRecording], command: Sequence[str]
) -> dict[str, Any]:
    """Return run.json. Any: a JSON document."""
    return {
        "schema": "tfprobe.run/1",
        "id": made.id,
        "command": agent_files.mask_arguments(command),
        "cwd": environ.working_directory(),
        "host": os.uname().nodename,
        "user": prepare.user(),
        "pid": os.getpid(),
        "boot_id": proc.boot_id(),
        "started_unix_ns": made.started_unix_ns,
        "started": prepare.utc(made.started_unix_ns),
        "tfprobe": tfprobe.__version__,
        "config": {},
        "environment": {},
        "services": [str(recording.address) for recording in recordings],
    }


def _process(item: ServiceRecording, rank: int, world: int) -> dict[str, Any]:
    """Return process.json. Any: a JSON document."""
    place = {"source": "order of services", "index": rank, "world": world, "role": None}
    return {
        "schema": "tfprobe.process/1",
        "host": item.address.host,
        "pid": None,
        "started_unix_ns": item.started_unix_ns,
        "parent": None,
        "argv": [],
        "executable": "",
        "rank": place if world > 1 else None,
        "service": {
            "address": str(item.address),
            "port": item.address.port,
            "steps": item.steps,
            "duration_ns": item.duration_ns,
        },
    }


def _write_json(path: Path, document: Mapping[str, Any]) -> None:
    write_file(path, (json.dumps(document, indent=1) + "\n").encode())


def _refused(path: Path, exc: OSError) -> UsageError:
    hint = "Choose another directory with -o."
    return UsageError(f"Cannot record to {path}: {exc.strerror or exc}.", hint=hint)
