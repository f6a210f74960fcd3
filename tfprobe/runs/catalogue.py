"""Find runs: all runs in a directory, newest first, or the one that a user named."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

from tfprobe.errors import Missing, NoAnswer, UnreadableInput
from tfprobe.profile.profile import UNNAMED
from tfprobe.profile.snapshots import RunLine
from tfprobe.runs.directory_tree import disk_bytes
from tfprobe.runs.layout import LATEST, ProcessFolder, RunFolder, children
from tfprobe.runs.liveness import (
    ENDED,
    KILLED,
    LIVE,
    NO_SIGN,
    UNKNOWN,
    Machine,
    ProcessEntry,
    ended_process,
    ended_unread,
    launcher_state,
    may_say_more,
    run_state,
    why_unknown,
)
from tfprobe.runs.manifests import (
    Launches,
    LaunchExit,
    ProcessManifest,
    RunManifest,
    read_process,
    read_run,
)
from tfprobe.runs.process_folder.steps_layout import Header, StepsGlance, read_glance


@dataclass(frozen=True, slots=True)
class RunEntry:
    """A summary of one run, with its files; `line` is the same without file system details.

    `launches` are the launches after the first, if several launches share the run.

    `exits` is how launches ended, for launchers that waited for their job; `why_unknown` says why
    the state cannot be determined on this machine.
    """

    folder: RunFolder
    manifest: RunManifest | Missing
    processes: tuple[ProcessEntry, ...]
    state: str
    launches: tuple[RunManifest, ...] = ()
    exits: tuple[LaunchExit, ...] = ()
    why_unknown: str = ""

    @property
    def steps(self) -> int:
        return sum(process.steps for process in self.processes)

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts it ran on: the launcher's first, then those of its processes."""
        launchers = [each.host for each in _known(self.manifest, self.launches)]
        return tuple(
            dict.fromkeys((*launchers, *(process.folder.host for process in self.processes)))
        )

    @property
    def active_unix_ns(self) -> int | Missing:
        """The last sign of life: the latest write of any of its processes, or else its launch."""
        signs = (process.active_unix_ns for process in self.processes)
        known = [sign for sign in signs if not isinstance(sign, Missing)]
        known = known or [each.started_unix_ns for each in _known(self.manifest, self.launches)]
        return max(known) if known else NO_SIGN

    @property
    def line(self) -> RunLine:
        """Return what a listing shows of the run, without its size."""
        facts = self.manifest
        known = None if isinstance(facts, Missing) else facts
        lost = facts if isinstance(facts, Missing) else Missing("run.json does not say")
        return RunLine(
            id=self.folder.id,
            directory=str(self.folder.root),
            command=known.command if known else lost,
            started=known.started if known else lost,
            host=known.host if known else lost,
            processes=len(self.processes),
            steps=self.steps,
            state=self.state,
            user=known.user if known else lost,
            hosts=self.hosts,
            active_unix_ns=self.active_unix_ns,
            name=(known and known.name) or UNNAMED,
            tags=known.tags if known else (),
        )


def measured(run: RunLine) -> RunLine:
    """Return the line of a run with its size on disk."""
    return replace(run, size_bytes=disk_bytes(Path(run.directory)))


def list_runs(directory: Path, here: Machine) -> tuple[RunEntry, ...]:
    """Return the runs in `directory`, or `directory` itself if it is a run, newest first."""
    seen = (glance(run, here) for run in _unsorted(directory))
    entries = [entry for entry in seen if not _is_gone(entry)]
    return tuple(
        sorted(entries, key=lambda each: _started(each.folder, each.manifest), reverse=True)
    )


def find_run(wanted: str, output: Path) -> RunFolder:
    """Resolve a directory, a run id or `latest` in the output directory.

    Raises UnreadableInput if the name matches nothing, NoAnswer if there is no run at all.
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
    """Resolve what `find_run` resolves; for a directory of runs return all of them, oldest first.

    Raises the same errors as `find_run`.
    """
    if wanted != LATEST and not RunFolder(Path(wanted)).is_run():
        is_id = RunFolder(output / wanted).is_run()
        found = () if is_id or not os.path.isdir(wanted) else _folders(Path(wanted))
        if found:
            return tuple(RunFolder(run.root.resolve()) for run in reversed(found))
    return (find_run(wanted, output),)


def _is_gone(entry: RunEntry) -> bool:
    """Return whether a run was removed while it was being read."""
    return isinstance(entry.manifest, Missing) and not os.path.isdir(entry.folder.root)


def glance(run: RunFolder, here: Machine) -> RunEntry:
    """Read what a listing shows of one run; corrupt parts become Missing."""
    launches = Launches(run)
    processes = tuple(_process(folder, here) for folder in run.processes())
    return run_entry(run, _run_manifest(run), processes, launches.known(), launches.exits(), here)


def run_entry(
    run: RunFolder,
    manifest: RunManifest | Missing,
    processes: tuple[ProcessEntry, ...],
    launches: tuple[RunManifest, ...],
    exits: tuple[LaunchExit, ...],
    here: Machine,
) -> RunEntry:
    """Return a run with its state, which is derived from the arguments."""
    known = _known(manifest, launches)
    state = run_state(known, processes, exits, here)
    why = why_unknown(known, processes, here) if state == UNKNOWN else ""
    return RunEntry(run, manifest, processes, state, launches, exits, why)


def has_ended(entry: RunEntry, here: Machine) -> bool:
    """Return whether a run is known to have ended; on another machine this may stay unknown."""
    if entry.state in ENDED or isinstance(entry.manifest, Missing):
        return entry.state in ENDED
    if not all(
        process.state in ENDED or ended_unread(process, here) for process in entry.processes
    ):
        return False
    # Nothing records how it ended, and the launcher, which could have started a process, is gone.
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
    """Return the runs in a directory, or the directory itself if it is a run, newest first."""
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
        return 0, run.id  # removed since it was listed


def _run_manifest(run: RunFolder) -> RunManifest | Missing:
    try:
        return read_run(run.manifest)
    except UnreadableInput as exc:
        return Missing(str(exc))


def _process(folder: ProcessFolder, here: Machine) -> ProcessEntry:
    manifest: ProcessManifest | Missing
    try:
        manifest = read_process(folder.manifest)
    except UnreadableInput as exc:
        manifest = Missing(str(exc))
    glance = _steps_glance(folder)
    known = None if isinstance(manifest, Missing) else manifest
    state = ended_process(folder, _header(glance), known, here)
    if state not in LIVE and may_say_more(_header(glance)):
        # It may have recorded its end between the two reads.
        glance = _steps_glance(folder)
        state = ended_process(folder, _header(glance), known, here)
    header = glance if isinstance(glance, Missing) else glance.header
    steps = 0 if isinstance(glance, Missing) else glance.steps
    if known is not None and known.service is not None:
        steps = known.service.steps
    return ProcessEntry(folder, manifest, header, steps, state, _active(manifest, glance, here))


def _steps_glance(folder: ProcessFolder) -> StepsGlance | Missing:
    try:
        return read_glance(folder.steps)
    except UnreadableInput as exc:
        return Missing(str(exc))


def _header(glance: StepsGlance | Missing) -> Header | None:
    return None if isinstance(glance, Missing) else glance.header


def _active(
    manifest: ProcessManifest | Missing, glance: StepsGlance | Missing, here: Machine
) -> int | Missing:
    """Return when it ended, else the latest time in its files: the header may be 1024 steps old.

    For a process of this boot the time is on the wall clock as it is set now, even if the clock was
    set in the meantime.
    """
    if isinstance(glance, Missing):
        return NO_SIGN if isinstance(manifest, Missing) else manifest.started_unix_ns
    header = glance.header
    noted_ns = header.unix_ns(header.last_note_mono_ns)
    boot_id = None if isinstance(manifest, Missing) else manifest.boot_id
    set_by_ns = here.clock_was_set_by_ns(header, boot_id)
    if set_by_ns or (set_by_ns == 0 and header.ended_mono_ns):
        return noted_ns + set_by_ns
    return header.exit_unix_ns or max(noted_ns, glance.written_unix_ns)
