"""Find runs: all below a directory, newest first, or the one a person named."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tfprobe.errors import Missing, NoAnswer, UnreadableInput
from tfprobe.runs.layout import LATEST, ProcessFolder, RunFolder, children
from tfprobe.runs.liveness import (
    ENDED,
    FAILED,
    FINISHED,
    KILLED,
    LIVE,
    REPLACED,
    RUNNING,
    TERMINATED,
    UNKNOWN,
    Machine,
    is_gone,
    launcher_state,
    may_say_more,
    process_state,
    where_it_ran,
)
from tfprobe.runs.manifests import (
    Launches,
    LaunchExit,
    ProcessManifest,
    RunManifest,
    read_process,
    read_run,
)
from tfprobe.runs.process_folder.events import signal_to, signals_around
from tfprobe.runs.process_folder.steps import StepsGlance, read_glance
from tfprobe.runs.process_folder.steps_layout import Header

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
    """One run at a glance. `launches` are those after the first, where several share it.

    `exits` is how launches ended, as far as a launcher stayed; `why_unknown` says why nobody here
    can tell its state.
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
        """Where it ran: the launcher's host first, then those of its processes."""
        launchers = [each.host for each in _known(self.manifest, self.launches)]
        return tuple(
            dict.fromkeys((*launchers, *(process.folder.host for process in self.processes)))
        )

    @property
    def active_unix_ns(self) -> int | Missing:
        """The last sign of life: when a process of it last wrote, or it was launched."""
        signs = (process.active_unix_ns for process in self.processes)
        known = [sign for sign in signs if not isinstance(sign, Missing)]
        known = known or [each.started_unix_ns for each in _known(self.manifest, self.launches)]
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
    """Return the job's first process, where that was recorded; of its programs the last.

    A program that replaces itself (os.exec) goes on under the same pid, since the same tick.
    """
    found: ProcessEntry | None = None
    latest_ns = -1
    for process in processes:
        facts = process.manifest
        if isinstance(facts, Missing) or facts.parent is not None:
            continue
        if is_of_launch(facts, manifest) and facts.started_unix_ns > latest_ns:
            found, latest_ns = process, facts.started_unix_ns
    return found


def is_of_launch(facts: ProcessManifest, launch: RunManifest) -> bool:
    """Say whether a process is the first of a launch, or a program that took its place."""
    ticks = (facts.pid_started_ticks, launch.pid_started_ticks)
    return (facts.host, facts.pid) == (launch.host, launch.pid) and (
        None in ticks or ticks[0] == ticks[1]
    )


def glance(run: RunFolder, here: Machine) -> RunEntry:
    """Read what a listing shows of one run; whatever is corrupt becomes Missing."""
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
    """Return a run with its state, which follows from all that is given."""
    known = _known(manifest, launches)
    state = _run_state(known, processes, exits, here)
    why = _why_unknown(known, processes, here) if state == UNKNOWN else ""
    return RunEntry(run, manifest, processes, state, launches, exits, why)


def ended_process(
    folder: ProcessFolder, header: Header | None, manifest: ProcessManifest | None, here: Machine
) -> str:
    """Return the state of a process; of one that a signal of its own job ended, terminated."""
    state = process_state(header, manifest, here)
    if state == KILLED and manifest is not None:
        sent = signal_to(manifest, header, signals_around(folder))
        return KILLED if sent is None else TERMINATED
    return state


def _run_state(
    known: tuple[RunManifest, ...],
    processes: tuple[ProcessEntry, ...],
    exits: tuple[LaunchExit, ...],
    here: Machine,
) -> str:
    """Return the main process's state where it is known, else what the others allow to say.

    A run runs while any process of it does, and is stopped when all that are there are: of a shell
    that waits for a stopped process, the process says more. Of several launches, each has a main
    process, and the worst of their ends counts.
    """
    live = {process.state for process in processes}.intersection(LIVE)
    live = live or {launcher_state(each, here) for each in known}.intersection(LIVE)
    if live:
        return RUNNING if RUNNING in live else live.pop()
    ends = [_main_end(each, processes, exits) for each in known]
    if ends and None not in ends:
        worst = (UNKNOWN, KILLED, FAILED, TERMINATED)
        return next((state for state in worst if state in ends), FINISHED)
    return _end_of_others(processes)


def _main_end(
    launch: RunManifest, processes: tuple[ProcessEntry, ...], exits: tuple[LaunchExit, ...]
) -> str | None:
    """Return how the first process of a launch ended; None where nothing tells.

    Nothing does of one whose last recorded program replaced itself by one that was not recorded.
    """
    main = main_process(launch, processes)
    seen = [each for each in exits if (each.host, each.pid) == (launch.host, launch.pid)]
    if not seen:
        return None if main is None or main.state == REPLACED else main.state
    if seen[-1].signal is not None:
        # Python ends itself by SIGINT after a KeyboardInterrupt that nobody caught.
        return FAILED if main is not None and main.state == FAILED else KILLED
    return FAILED if seen[-1].status else FINISHED


def _end_of_others(processes: tuple[ProcessEntry, ...]) -> str:
    """Return how a job ended whose first process, such as a shell, was not recorded.

    It ended well if the process that ended last did, which is what a shell's status says; else as
    the first did that did not. Processes that others of them started count for these. How one ended
    that replaced itself by another program is not known by the first.
    """
    states = {process.state for process in processes}
    if UNKNOWN in states or states <= {REPLACED}:
        return UNKNOWN
    pids = {each.manifest.pid for each in processes if not isinstance(each.manifest, Missing)}
    own = _by_end([each for each in processes if not _is_child(each, pids)])
    ends = [each.state for each in own if each.state not in (TERMINATED, REPLACED)]
    if not ends or ends[-1] == FINISHED:
        return FINISHED
    return next(state for state in ends if state != FINISHED)


def _by_end(processes: Sequence[ProcessEntry]) -> list[ProcessEntry]:
    """Sort processes by their ends: those of one boot by the clock that nobody can set."""
    manifests = [each.manifest for each in processes]
    boots = {None if isinstance(manifest, Missing) else manifest.boot_id for manifest in manifests}
    is_one_boot = len(boots) == 1 and None not in boots

    def end_ns(process: ProcessEntry) -> int:
        header = process.header
        if isinstance(header, Missing):
            return 0
        mono_ns = header.last_note_mono_ns
        return mono_ns if is_one_boot else header.unix_ns(mono_ns)

    return sorted(processes, key=end_ns)


def _is_child(process: ProcessEntry, pids: set[int]) -> bool:
    facts = process.manifest
    return not isinstance(facts, Missing) and (facts.parent is not None or facts.ppid in pids)


def _why_unknown(
    known: tuple[RunManifest, ...], processes: tuple[ProcessEntry, ...], here: Machine
) -> str:
    for process in processes:
        facts = process.manifest
        if ended_unread(process, here):
            return f"what a process of it, {process.folder.name}, noted of its end cannot be read"
        if process.state == UNKNOWN and not isinstance(facts, Missing):
            return f"a process of it ran {where_it_ran(facts, here)}"
        if process.state == UNKNOWN:
            return f"a process folder, {process.folder.name}, does not say where it ran"
    if not known:
        return "run.json cannot be read, so nothing tells where it ran"
    for launch in known:
        if not here.knows(launch.host, launch.boot_id, launch.pid_namespace):
            return f"it ran {where_it_ran(launch, here)}"
    if processes:
        return "its process replaced itself by a program that was not recorded (os.exec)"
    return "it has ended, and no recorded process shows how"


def has_ended(entry: RunEntry, here: Machine) -> bool:
    """Say whether a run is known to be over; of one on another machine that may never be known."""
    if entry.state in ENDED or isinstance(entry.manifest, Missing):
        return entry.state in ENDED
    if not all(
        process.state in ENDED or ended_unread(process, here) for process in entry.processes
    ):
        return False
    # Nothing tells how it ended, and who would have started something is gone.
    known = _known(entry.manifest, entry.launches)
    return all(launcher_state(each, here) == KILLED for each in known)


def ended_unread(process: ProcessEntry, here: Machine) -> bool:
    """Say whether a process is over, and what it noted of its end cannot be read."""
    facts = process.manifest
    if isinstance(facts, Missing) or process.state != UNKNOWN:
        return False
    return is_gone(facts, here)


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
    try:
        manifest = read_process(folder.manifest)
    except UnreadableInput as exc:
        manifest = Missing(str(exc))
    glance = _steps_glance(folder)
    known = None if isinstance(manifest, Missing) else manifest
    state = ended_process(folder, _header(glance), known, here)
    if state not in LIVE and may_say_more(_header(glance)):
        # It may have noted its end between the two looks.
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
    """Return when it ended, or the latest that its files say: the header may be 1024 steps old.

    Of a process of this boot that is by the wall clock of now, whatever it showed meanwhile.
    """
    if isinstance(glance, Missing):
        return _NO_SIGN if isinstance(manifest, Missing) else manifest.started_unix_ns
    header = glance.header
    noted_ns = header.unix_ns(header.last_note_mono_ns)
    boot_id = None if isinstance(manifest, Missing) else manifest.boot_id
    set_by_ns = here.clock_was_set_by_ns(header, boot_id)
    if set_by_ns or (set_by_ns == 0 and header.ended_mono_ns):
        return noted_ns + set_by_ns
    return header.exit_unix_ns or max(noted_ns, glance.written_unix_ns)
