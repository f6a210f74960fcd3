"""Start a job: recorded if that is possible, else unrecorded. Imports little: every job waits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from tfprobe.errors import TfprobeError
from tfprobe.launch import environ, execute, prepare, settings, sidecars
from tfprobe.launch.joining import agree, is_running

# The last stacks are written within a second of the job's end, unless the machine is busy.
_LAST_STACKS_S = 5.0


@dataclass(frozen=True, slots=True)
class LaunchedCommand:
    """A command, the environment it inherits, and what shows a message to the user."""

    command: list[str]
    environment: dict[str, str]
    complain: Callable[[str], None]


def launch(
    flags: dict[str, object],
    command: list[str],
    *,
    complain: Callable[[str], None],
    report: Callable[[Path], None],
) -> int:
    """Run the command, recorded if possible. Return its status, and only with --report.

    `report` shows the report of a run directory. Raises UsageError for a wrong flag,
    CommandNotFound and CannotExecute.
    """
    job = LaunchedCommand(command, environ.inherited(), complain)
    cwd = environ.working_directory()
    settings.resolve(settings.flag_layer(flags, cwd))
    if flags.get("disable") or settings.is_disabled(job.environment):
        execute.become(command, job.environment)
    # Before anything is written for a command that does not exist.
    execute.locate(command[0], job.environment)
    try:
        chosen = settings.gather(flags, job.environment, cwd)
        agreed = agree(chosen.join, job.environment, command)
        run = prepare.prepare(chosen, command, agreed=agreed, environment=job.environment)
    except Exception as problem:
        _run_unrecorded(job, problem)
    if not chosen.report:
        _become_recorded(job, run, chosen)
    return _supervise(job, run, chosen, report)


def _supervise(
    job: LaunchedCommand,
    run: prepare.PreparedRun,
    chosen: settings.Settings,
    report: Callable[[Path], None],
) -> int:
    from tfprobe.launch import supervise

    ended = supervise.watch(lambda: _become_recorded(job, run, chosen))
    if run.folder.manifest.exists():
        try:
            supervise.write_exit(run.folder, ended.pid, ended.status)
        except OSError as problem:
            job.complain(f"The end of the job could not be recorded: {problem}")
        # Of several launches the last to end reports, on each machine.
        if not (run.is_shared and is_running(run.folder)):
            if chosen.stacks:
                _wait_for_stacks(run)
            report(run.folder.root)
    return supervise.mirror(ended.status)


def _become_recorded(
    job: LaunchedCommand, run: prepare.PreparedRun, chosen: settings.Settings
) -> NoReturn:
    try:
        prepare.publish(run, chosen, job.command, job.environment)
    except Exception as problem:
        _run_unrecorded(job, problem)
    if run.note:
        job.complain(run.note)
    if not chosen.quiet:
        job.complain(f"recording to {run.folder.root}")
    path = execute.with_boot(str(run.folder.boot), job.environment.get("PYTHONPATH"))
    recorded = {**job.environment, "PYTHONPATH": path}
    if chosen.debug is not None:
        recorded["TFPROBE_DEBUG"] = chosen.debug
    if chosen.meter:
        _start_meter(job, run)
    if chosen.stacks:
        recorded.update(_start_stacks(job, run))
    try:
        execute.become(job.command, recorded)
    except execute.TooLong as problem:
        # Perhaps by our one entry, so once more without it.
        prepare.discard(run)
        _run_unrecorded(job, problem)
    except TfprobeError:
        prepare.discard(run)
        raise


def _start_meter(job: LaunchedCommand, run: prepare.PreparedRun) -> None:
    try:
        sidecars.meter(run.folder, job.environment, is_shared=run.is_shared)
    except Exception:
        pass  # accelerators are not sampled; whatever is wrong with tfprobe, the job runs


def _start_stacks(job: LaunchedCommand, run: prepare.PreparedRun) -> dict[str, str]:
    """Start the sampler of stacks; return the variables that the job needs for it."""
    try:
        variables, refusal = sidecars.start_stack_sampler(
            run.folder, job.environment, is_shared=run.is_shared
        )
    except Exception as problem:
        variables, refusal = {}, str(problem)
    if refusal:
        job.complain(f"Stacks are not sampled: {refusal}. The job runs without them.")
    return variables


def _wait_for_stacks(run: prepare.PreparedRun) -> None:
    from tfprobe.runs import sampler_lock

    sampler_lock.wait_until_written(run.folder, _LAST_STACKS_S)


def _run_unrecorded(job: LaunchedCommand, problem: Exception) -> NoReturn:
    # Whatever is wrong with tfprobe, the job runs; that is why every error ends here.
    job.complain(f"{problem} The command runs unrecorded.")
    execute.become(job.command, job.environment)
