"""Turn the manifests of a run and the headers of its steps.bin files into processes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from tfprobe.errors import Missing, NoAnswer
from tfprobe.profile.profile import (
    LIVE_STATES,
    UNNAMED,
    UNTOLD,
    Ending,
    Hooks,
    Problem,
    Process,
    Run,
)
from tfprobe.profile.programs import Program, ProgramFacts, programs
from tfprobe.profile.reader import service_trace
from tfprobe.profile.reader.rank_check import roster_problems
from tfprobe.runs.catalogue import RunEntry
from tfprobe.runs.layout import RunFolder
from tfprobe.runs.liveness import ENDED, TERMINATED, ProcessEntry, is_of_launch, main_process
from tfprobe.runs.manifests import ProcessManifest, RunManifest, ServiceRecord
from tfprobe.runs.process_folder.events import signal_to, signals_around
from tfprobe.runs.process_folder.steps import StepsFile
from tfprobe.runs.process_folder.steps_layout import Header


def run_of(entry: RunEntry) -> Run:
    """Return a run without its processes."""
    directory = str(entry.folder.root)
    facts = entry.manifest
    if isinstance(facts, Missing):
        return Run(
            entry.folder.id, directory, facts, facts, entry.state, why_unknown=entry.why_unknown
        )
    # Not the id in run.json: people and pages refer to a run by its directory, which may be a copy.
    return Run(
        entry.folder.id,
        directory,
        facts.command,
        facts.started,
        entry.state,
        _ending_of_run(entry, facts),
        entry.why_unknown,
        facts.name or UNNAMED,
        facts.tags,
    )


def _ending_of_run(entry: RunEntry, manifest: RunManifest) -> Ending:
    """Return how the first process of the run's first launch ended."""
    for seen in entry.exits:
        if (seen.host, seen.pid) == (manifest.host, manifest.pid):
            return Ending(seen.status, seen.signal)
    main = main_process(manifest, entry.processes)
    return Ending() if main is None else _ending(main)


def _ending(entry: ProcessEntry) -> Ending:
    """Return how a process ended, without the exception, which is in its events."""
    signal: int | None = None
    if entry.state == TERMINATED and isinstance(entry.manifest, ProcessManifest):
        header = None if isinstance(entry.header, Missing) else entry.header
        sent = signal_to(entry.manifest, header, signals_around(entry.folder))
        signal = None if sent is None else sent.number
    if entry.state not in ENDED or isinstance(entry.header, Missing):
        return Ending(signal=signal)
    return Ending(entry.header.exit_status, signal)


def run_problems(entry: RunEntry) -> Iterator[Problem]:
    """Yield what could not be used of the run itself."""
    if isinstance(entry.manifest, Missing):
        yield Problem("run.json", entry.manifest.reason)
    manifests = (each.manifest for each in entry.processes)
    if any(isinstance(each, ProcessManifest) and each.rank is not None for each in manifests):
        yield from roster_problems(entry)


def no_rank(folder: RunFolder, rank: int, ranks: Iterable[int | None]) -> NoAnswer:
    """Return the error for a rank that no process has; `ranks` are those of all processes."""
    known = sorted({each for each in ranks if each is not None})
    ranks_text = f"It has ranks {', '.join(map(str, known))}."
    hint = ranks_text if known else "Its processes have no rank."
    return NoAnswer(f"Run {folder.id} has no process of rank {rank}.", hint=hint)


def process_of(
    entry: ProcessEntry, steps: StepsFile | Missing, index: int, *, captures: int | None = None
) -> Process:
    """Return a process from its manifest and its steps.bin, without settings.

    `captures` is the number of captures on disk; if it is not given, they are counted.
    """
    facts = entry.manifest
    header = entry.header
    known = facts if isinstance(facts, ProcessManifest) else None
    service = known.service if known else None
    lost = facts if isinstance(facts, Missing) else Missing("the process did not say")
    lost = lost if service is None else service_trace.UNTOLD
    rank = known.rank if known else None
    pid = known.pid if known else header.pid if isinstance(header, Header) else 0
    return Process(
        index=index,
        folder=entry.folder.name,
        host=known.host if known else entry.folder.host,
        pid=pid,
        state=entry.state,
        argv=known.argv if known else (),
        python=(known.python if known else None) or lost,
        tensorflow=(known.tensorflow if known else None) or lost,
        jax=known.jax if known else None,
        torch=known.torch if known else None,
        rank=rank.index if rank else None,
        role=rank.role if rank else None,
        started_unix_ns=known.started_unix_ns if known else 0,
        devices=_devices(known) if known and service is None else lost,
        hooks=lost if service else steps if isinstance(steps, Missing) else _hooks(steps),
        captures=len(entry.folder.capture_files()) if captures is None else captures,
        unix_minus_monotonic_ns=_shift_ns(header, service),
        port=service.port if service else None,
        boot_id=_boot_id(known, lost),
        world=rank.world if rank else None,
        ppid=known.ppid if known else None,
        is_fork=known is not None and known.is_fork,
        serves=rank.serves if rank else (),
        restarts=rank.restarts if rank else 0,
        ending=_ending(entry),
        untimed_steps=header.untimed_steps if isinstance(header, Header) else 0,
        exec_ns=_exec_ns(known, header),
    )


def programs_of(entries: Sequence[ProcessEntry]) -> Mapping[tuple[str, str], Program]:
    """Return the program of each process of a run, by host and folder."""
    found = programs([_facts(entry) for entry in entries])
    keys = ((entry.folder.host, entry.folder.name) for entry in entries)
    return dict(zip(keys, found, strict=True))


def with_launch(process: Process, entry: ProcessEntry, launches: Iterable[RunManifest]) -> Process:
    """Return a process; for the first one of a launch, leave the launcher's time out of its start.

    The launcher becomes the job's first process, so to the system that process began with tfprobe.
    """
    facts = entry.manifest
    if isinstance(process.exec_ns, Missing) or isinstance(facts, Missing):
        return process
    launched_ns = [launch.started_unix_ns for launch in launches if is_of_launch(facts, launch)]
    return replace(process, exec_ns=max([process.exec_ns, *launched_ns]))


def _exec_ns(known: ProcessManifest | None, header: Header | Missing) -> int | Missing:
    if known is None or isinstance(header, Missing):
        return UNTOLD
    if known.is_fork:
        return Missing("the interpreter of another process runs on in it")
    began_ns = known.pid_started_mono_ns
    return UNTOLD if began_ns is None else header.unix_ns(began_ns)


def with_program(process: Process, program: Program) -> Process:
    """Return a process with its program."""
    return replace(process, program=program.name, title=program.title, group=program.group)


def _facts(entry: ProcessEntry) -> ProgramFacts:
    facts = entry.manifest
    if isinstance(facts, Missing):
        pid = 0 if isinstance(entry.header, Missing) else entry.header.pid
        return ProgramFacts((), entry.folder.host, pid, None, False, None, None, 0, None)
    rank = facts.rank
    return ProgramFacts(
        argv=facts.argv,
        machine=(facts.host, facts.boot_id),
        pid=facts.pid,
        ppid=facts.ppid,
        is_fork=facts.is_fork,
        rank=rank.index if rank else None,
        role=rank.role if rank else None,
        started_unix_ns=0 if facts.service else facts.started_unix_ns,
        end_unix_ns=_end_unix_ns(entry.header, entry.state),
        program=facts.program,
        notebook=facts.notebook,
    )


def _end_unix_ns(header: Header | Missing, state: str) -> int | None:
    if isinstance(header, Missing) or state in LIVE_STATES:
        return None
    return header.unix_ns(header.last_note_mono_ns)


def _shift_ns(header: Header | Missing, service: ServiceRecord | None) -> int | Missing:
    if service is not None:
        return 0  # its steps are already on the wall clock
    return header if isinstance(header, Missing) else header.unix_ns(0)


def _boot_id(known: ProcessManifest | None, lost: Missing) -> str | Missing:
    # The manifest of a service names the machine that sent the request, not the one it ran on.
    return lost if known is None or known.service else known.boot_id or lost


def _devices(manifest: ProcessManifest) -> tuple[str, ...] | Missing:
    if isinstance(manifest.devices, Missing):
        return manifest.devices
    return tuple(str(device.get("name", "?")) for device in manifest.devices)


def _hooks(steps: StepsFile) -> Hooks:
    header = steps.header
    end_ns = max(steps.last_sign_mono_ns, header.ended_mono_ns)
    return Hooks(
        calls_measured=max(header.hook_calls_measured, 0),
        measured_ns=max(header.hook_measured_ns, 0),
        fold_ns=max(header.fold_ns, 0),
        once_ns=max(header.once_ns, 0),
        traced_ns=max(header.traced_ns, 0),
        wall_ns=max(end_ns - header.started_mono_ns, 0),
    )
