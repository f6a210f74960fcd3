"""Find runs: all below a directory, newest first, or the one a person named."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from tfprobe.errors import Missing, NoAnswer, UnreadableInput
from tfprobe.store.layout import LATEST, ProcessFolder, RunFolder, children
from tfprobe.store.liveness import (
    FINISHED,
    KILLED,
    LIVE,
    RUNNING,
    UNKNOWN,
    Machine,
    launcher_state,
    process_state,
)
from tfprobe.store.manifests import ProcessManifest, RunManifest, read_process, read_run
from tfprobe.store.steps import Header, count_steps, read_header


@dataclass(frozen=True, slots=True)
class ProcessEntry:
    """One process at a glance."""

    folder: ProcessFolder
    manifest: ProcessManifest | Missing
    header: Header | Missing
    steps: int
    state: str


@dataclass(frozen=True, slots=True)
class RunEntry:
    """One run at a glance."""

    folder: RunFolder
    manifest: RunManifest | Missing
    processes: tuple[ProcessEntry, ...]
    state: str

    @property
    def steps(self) -> int:
        return sum(process.steps for process in self.processes)


def list_runs(directory: Path, here: Machine) -> tuple[RunEntry, ...]:
    """Return the runs in `directory`, or the run it is itself, newest first."""
    return tuple(glance(run, here) for run in _folders(directory))


def find_run(wanted: str, output: Path) -> RunFolder:
    """Resolve a directory, a run id or `latest` in the output directory.

    Raises UnreadableInput when it names nothing, NoAnswer when there is no run at all.
    """
    if wanted == LATEST:
        return _latest(output)
    as_path = RunFolder(Path(wanted))
    if as_path.is_run():
        return RunFolder(as_path.root.resolve())
    by_id = RunFolder(output / wanted)
    if by_id.is_run():
        return RunFolder(by_id.root.resolve())
    if os.path.isdir(as_path.root) and _folders(as_path.root):
        return _latest(as_path.root)
    hint = f"`tfprobe ls {output}` lists the runs there are."
    raise UnreadableInput(
        f"{wanted!r} is neither a run directory nor a run in {output}.", hint=hint
    )


def glance(run: RunFolder, here: Machine) -> RunEntry:
    """Read what a listing shows of one run; whatever is corrupt becomes Missing."""
    manifest = _run_manifest(run)
    processes = tuple(_process(folder, here) for folder in run.processes())
    return RunEntry(run, manifest, processes, _run_state(manifest, processes, here))


def _latest(output: Path) -> RunFolder:
    folders = _folders(output)
    if folders:
        return RunFolder(folders[0].root.resolve())
    hint = "Record one with `tfprobe run -- COMMAND`, or name its directory."
    raise NoAnswer(f"There is no run in {output}.", hint=hint)


def _folders(directory: Path) -> tuple[RunFolder, ...]:
    if RunFolder(directory).is_run():
        return (RunFolder(directory),)
    if os.path.isdir(directory) and not os.access(directory, os.R_OK):
        raise UnreadableInput(f"{directory} is closed to this user.", hint="Ask its owner.")
    runs = [RunFolder(path) for path in children(directory) if not path.name.startswith(".")]
    return tuple(sorted((r for r in runs if r.is_run()), key=_started, reverse=True))


def _started(run: RunFolder) -> tuple[int, str]:
    manifest = _run_manifest(run)
    if isinstance(manifest, RunManifest):
        return manifest.started_unix_ns, run.id
    try:
        return run.root.stat().st_mtime_ns, run.id
    except OSError:
        return 0, run.id  # removed meanwhile


def _run_manifest(run: RunFolder) -> RunManifest | Missing:
    try:
        return read_run(run.manifest)
    except UnreadableInput as exc:
        return Missing(str(exc))


def _process(folder: ProcessFolder, here: Machine) -> ProcessEntry:
    manifest: ProcessManifest | Missing
    header: Header | Missing
    try:
        manifest = read_process(folder.manifest)
    except UnreadableInput as exc:
        manifest = Missing(str(exc))
    try:
        header, steps = read_header(folder.steps), count_steps(folder.steps)
    except UnreadableInput as exc:
        header, steps = Missing(str(exc)), 0
    known_header = None if isinstance(header, Missing) else header
    known_manifest = None if isinstance(manifest, Missing) else manifest
    state = process_state(known_header, known_manifest, here)
    return ProcessEntry(folder, manifest, header, steps, state)


def _run_state(
    manifest: RunManifest | Missing, processes: tuple[ProcessEntry, ...], here: Machine
) -> str:
    """Return the main process's state where it was recorded, else what the others allow to say.

    A run runs while any process of it does, and is stopped when all that are there are: of a shell
    that waits for a stopped process, the process says more.
    """
    states = {process.state for process in processes}
    launcher = UNKNOWN if isinstance(manifest, Missing) else launcher_state(manifest, here)
    live = states.intersection(LIVE) or {launcher}.intersection(LIVE)
    if live:
        return RUNNING if RUNNING in live else live.pop()
    main = None if isinstance(manifest, Missing) else _main_state(manifest, processes)
    if main is not None:
        return main
    if UNKNOWN in states or not states:
        return UNKNOWN
    return KILLED if states == {KILLED} else FINISHED


def _main_state(manifest: RunManifest, processes: tuple[ProcessEntry, ...]) -> str | None:
    for process in processes:
        facts = process.manifest
        if isinstance(facts, Missing) or facts.parent is not None:
            continue
        if (facts.host, facts.pid) == (manifest.host, manifest.pid):
            return process.state
    return None
