"""Find runs: all below a directory, newest first, or the one a person named."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from tfprobe.errors import Missing, NoAnswer, UnreadableInput
from tfprobe.store.launches import Launches
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
from tfprobe.store.steps import StepsGlance, read_glance
from tfprobe.store.steps_layout import Header

_NO_SIGN = Missing("neither run.json nor a process says when it was")


@dataclass(frozen=True, slots=True)
class ProcessEntry:
    """One process at a glance. `active_unix_ns` is its last sign of life that is on disk."""

    folder: ProcessFolder
    manifest: ProcessManifest | Missing
    header: Header | Missing
    steps: int
    state: str
    active_unix_ns: int | Missing = _NO_SIGN


@dataclass(frozen=True, slots=True)
class RunEntry:
    """One run at a glance. `launches` are those after the first, where several share it."""

    folder: RunFolder
    manifest: RunManifest | Missing
    processes: tuple[ProcessEntry, ...]
    state: str
    launches: tuple[RunManifest, ...] = ()

    @property
    def steps(self) -> int:
        return sum(process.steps for process in self.processes)

    @property
    def hosts(self) -> tuple[str, ...]:
        """Where it ran: the launcher's host first, then those of its processes."""
        launchers = [each.host for each in _known(self.manifest, self.launches)]
        return tuple(dict.fromkeys((*launchers, *(each.folder.host for each in self.processes))))

    @property
    def active_unix_ns(self) -> int | Missing:
        """The last sign of life: when it was launched, or a process of it last wrote."""
        signs: list[int | Missing] = [process.active_unix_ns for process in self.processes]
        signs += [each.started_unix_ns for each in _known(self.manifest, self.launches)]
        known = [sign for sign in signs if not isinstance(sign, Missing)]
        return max(known) if known else _NO_SIGN


def list_runs(directory: Path, here: Machine) -> tuple[RunEntry, ...]:
    """Return the runs in `directory`, or the run it is itself, newest first."""
    seen = (glance(run, here) for run in _unsorted(directory))
    entries = [entry for entry in seen if not _is_gone(entry)]
    return tuple(
        sorted(entries, key=lambda each: _started(each.folder, each.manifest), reverse=True)
    )


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


def find_runs(wanted: str, output: Path) -> tuple[RunFolder, ...]:
    """Resolve what `find_run` resolves; of a directory of runs return all, the oldest first.

    Raises what `find_run` raises.
    """
    if wanted != LATEST and not RunFolder(Path(wanted)).is_run():
        is_id = RunFolder(output / wanted).is_run()
        found = () if is_id or not os.path.isdir(wanted) else _folders(Path(wanted))
        if found:
            return tuple(RunFolder(run.root.resolve()) for run in reversed(found))
    return (find_run(wanted, output),)


def _is_gone(entry: RunEntry) -> bool:
    """Say whether a run was removed while it was looked at."""
    return isinstance(entry.manifest, Missing) and not os.path.isdir(entry.folder.root)


def main_process(manifest: RunManifest, processes: tuple[ProcessEntry, ...]) -> ProcessEntry | None:
    """Return the job's first process, where that was recorded."""
    for process in processes:
        facts = process.manifest
        if isinstance(facts, Missing) or facts.parent is not None:
            continue
        if (facts.host, facts.pid) == (manifest.host, manifest.pid):
            return process
    return None


def glance(run: RunFolder, here: Machine) -> RunEntry:
    """Read what a listing shows of one run; whatever is corrupt becomes Missing."""
    manifest = _run_manifest(run)
    launches = Launches(run).known()
    processes = tuple(_process(folder, here) for folder in run.processes())
    state = run_state(manifest, processes, here, launches)
    return RunEntry(run, manifest, processes, state, launches)


def run_state(
    manifest: RunManifest | Missing,
    processes: tuple[ProcessEntry, ...],
    here: Machine,
    launches: tuple[RunManifest, ...] = (),
) -> str:
    """Return the main process's state where it was recorded, else what the others allow to say.

    A run runs while any process of it does, and is stopped when all that are there are: of a shell
    that waits for a stopped process, the process says more. Of several launches, each has a main
    process, and one that was killed counts more than those that finished.
    """
    states = {process.state for process in processes}
    known = _known(manifest, launches)
    live = states.intersection(LIVE) or {launcher_state(each, here) for each in known}
    live = live.intersection(LIVE)
    if live:
        return RUNNING if RUNNING in live else live.pop()
    mains = [main_process(each, processes) for each in known]
    ends = {main.state for main in mains if main is not None}
    if mains and None not in mains:
        return next((state for state in (UNKNOWN, KILLED) if state in ends), FINISHED)
    if UNKNOWN in states or not states:
        return UNKNOWN
    return KILLED if states == {KILLED} else FINISHED


def has_ended(entry: RunEntry, here: Machine) -> bool:
    """Say whether a run is known to be over; of one on another machine that may never be known."""
    if entry.processes or isinstance(entry.manifest, Missing):
        return entry.state in (FINISHED, KILLED)
    # Nothing was recorded, and who would have started something is gone.
    known = _known(entry.manifest, entry.launches)
    return all(launcher_state(each, here) == KILLED for each in known)


def _known(
    manifest: RunManifest | Missing, launches: tuple[RunManifest, ...]
) -> tuple[RunManifest, ...]:
    return launches if isinstance(manifest, Missing) else (manifest, *launches)


def _latest(output: Path) -> RunFolder:
    folders = _folders(output)
    if folders:
        return RunFolder(folders[0].root.resolve())
    hint = "Record one with `tfprobe run -- COMMAND`, or name its directory."
    raise NoAnswer(f"There is no run in {output}.", hint=hint)


def _folders(directory: Path) -> tuple[RunFolder, ...]:
    """Return the runs in a directory, or the one it is, newest first."""
    found = _unsorted(directory)
    return tuple(sorted(found, key=lambda run: _started(run, _run_manifest(run)), reverse=True))


def _unsorted(directory: Path) -> list[RunFolder]:
    if RunFolder(directory).is_run():
        return [RunFolder(directory)]
    if os.path.isdir(directory) and not os.access(directory, os.R_OK):
        raise UnreadableInput(f"{directory} is closed to this user.", hint="Ask its owner.")
    runs = [RunFolder(path) for path in children(directory) if not path.name.startswith(".")]
    return [run for run in runs if run.is_run()]


def _started(run: RunFolder, manifest: RunManifest | Missing) -> tuple[int, str]:
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
    glance: StepsGlance | None = None
    try:
        glance = read_glance(folder.steps)
        header, steps = glance.header, glance.steps
    except UnreadableInput as exc:
        header, steps = Missing(str(exc)), 0
    known_header = None if isinstance(header, Missing) else header
    known_manifest = None if isinstance(manifest, Missing) else manifest
    if known_manifest is not None and known_manifest.service is not None:
        steps = known_manifest.service.steps
    state = process_state(known_header, known_manifest, here)
    return ProcessEntry(folder, manifest, header, steps, state, _active(manifest, glance))


def _active(manifest: ProcessManifest | Missing, glance: StepsGlance | None) -> int | Missing:
    """Return when it ended, or the latest that its files say: the header may be 1024 steps old."""
    if glance is None:
        return _NO_SIGN if isinstance(manifest, Missing) else manifest.started_unix_ns
    header = glance.header
    if header.exit_unix_ns > 0:
        return header.exit_unix_ns
    return max(header.unix_ns(header.last_activity_mono_ns), glance.written_unix_ns)
