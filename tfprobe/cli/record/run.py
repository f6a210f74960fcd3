"""`tfprobe run`: record a job. Imports little, because every job waits for it."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from tfprobe.cli.main import complain
from tfprobe.errors import TfprobeError, UsageError
from tfprobe.launch import environ, execute, prepare, settings, sidecars
from tfprobe.launch.execute import with_boot
from tfprobe.launch.joining import agree
from tfprobe.launch.settings import flag_layer, gather, is_disabled

if TYPE_CHECKING:
    import click

# The last stacks are written within a second of the job's end, unless the machine is busy.
_LAST_STACKS_S = 5.0
_SEE_HELP = "See `tfprobe run --help`."


@dataclass(frozen=True, slots=True)
class Option:
    """One option of `tfprobe run`; a switch has no metavar."""

    flags: tuple[str, ...]
    metavar: str | None
    help: str
    is_repeatable: bool = False

    @property
    def name(self) -> str:
        """Give the name of the setting."""
        return self.flags[-1].lstrip("-").replace("-", "_")


OPTIONS: tuple[Option, ...] = (
    Option(("-o", "--output"), "DIR", "Directory of all runs.  [default: ./tfprobe-runs]"),
    Option(
        ("--join",),
        "NAME",
        "Share one run among all launches with this NAME; `off` for a run of its own.  "
        "[default: set by mpirun, srun or horovodrun]",
    ),
    Option(("--name",), "NAME", "Name of this kind of run, for `ls --name` and `diff --history`."),
    Option(
        ("--tag",),
        "KEY=VALUE",
        "Tag the run, for `ls --tag`; may be repeated.",
        is_repeatable=True,
    ),
    Option(("--steps",), "STEPS", "Trace these steps of each loop, as in 10-20,50."),
    Option(("--every",), "N", "Trace every Nth step."),
    Option(
        ("--budget",), "P", "Trace as many steps as cost this share of the time.  [default: 1%]"
    ),
    Option(
        ("--trace-level",),
        "LEVEL",
        "Set what is traced: full, software (host only) or off.  [default: full]",
    ),
    Option(("--report",), None, "Print the report on stderr when the job has ended."),
    Option(("-q", "--quiet"), None, "Do not print where the run is recorded."),
    Option(("--debug",), "FILE", "Write a log of the agent to FILE."),
    Option(("--no-meter",), None, "Do not sample the accelerators of this machine."),
    Option(("--stacks",), None, "Sample the Python stacks of the job with py-spy."),
    Option(("--disable",), None, "Run the command unrecorded."),
)


def main(arguments: Sequence[str]) -> int:
    """Start the job. Return only with --report; otherwise this process becomes the job."""
    flags, command = parse(arguments)
    return launch(flags, command)


def asks_for_help(arguments: Sequence[str]) -> bool:
    """Tell whether --help stands among our own options, where only click can answer."""
    try:
        parse(arguments)
    except _HelpAsked:
        return True
    except UsageError:
        return False
    return False


def parse(arguments: Sequence[str]) -> tuple[dict[str, object], list[str]]:
    """Split our options from the command, which begins after `--` or at the first other word.

    Raises: UsageError.
    """
    flags: dict[str, object] = {}
    rest = list(arguments)
    while rest and rest[0].startswith("-") and rest[0] != "-":
        word = rest.pop(0)
        if word == "--":
            break
        option, value = _option(word)
        if option.metavar is None:
            flags[option.name] = True
            continue
        if value is None and (not rest or rest[0] == "--"):
            raise UsageError(f"Option {word} requires a value: {option.metavar}.", hint=_SEE_HELP)
        value = rest.pop(0) if value is None else value
        if option.is_repeatable:
            before = flags.get(option.name)
            flags[option.name] = [*(before if isinstance(before, list) else []), value]
        else:
            flags[option.name] = value
    if not rest:
        raise UsageError(
            "No command was given.", hint="Add one, as in `tfprobe run -- python train.py`."
        )
    return flags, rest


def launch(flags: dict[str, object], command: list[str]) -> int:
    """Record the command if that is possible, and run it in any case but a wrong flag."""
    environment = environ.inherited()
    cwd = environ.working_directory()
    settings.resolve(flag_layer(flags, cwd))
    if flags.get("disable") or is_disabled(environment):
        execute.become(command, environment)
    # Before anything is written for a command that does not exist.
    execute.locate(command[0], environment)
    try:
        chosen = gather(flags, environment, cwd)
        agreed = agree(chosen.join, environment, command)
        run = prepare.prepare(chosen, command, agreed=agreed, environment=environment)
    except Exception as problem:
        _run_unrecorded(problem, command, environment)
    if not chosen.report:
        _become_recorded(run, chosen, command, environment)
    from tfprobe.launch import supervise

    ended = supervise.watch(lambda: _become_recorded(run, chosen, command, environment))
    if run.folder.manifest.exists():
        _note_exit(run, ended.pid, ended.status)
        if not _others_run(run):
            if chosen.stacks:
                _wait_for_stacks(run)
            _report(run)
    return supervise.mirror(ended.status)


def _option(word: str) -> tuple[Option, str | None]:
    name, equals, value = word.partition("=")
    for option in OPTIONS:
        if name in option.flags and not (equals and option.metavar is None):
            return option, value if equals else None
        short = option.flags[0]
        if option.metavar and len(short) == 2 and word.startswith(short):
            return option, word[2:]
    if word in ("-h", "--help"):
        raise _HelpAsked(word)
    raise UsageError(f"No such option: {word}.", hint=_SEE_HELP)


def _become_recorded(
    run: prepare.PreparedRun,
    chosen: settings.Settings,
    command: list[str],
    environment: dict[str, str],
) -> NoReturn:
    try:
        prepare.publish(run, chosen, command, environment)
    except Exception as problem:
        _run_unrecorded(problem, command, environment)
    if run.note:
        complain(run.note)
    if not chosen.quiet:
        complain(f"recording to {run.folder.root}")
    inherited = environment.get("PYTHONPATH")
    recorded = {**environment, "PYTHONPATH": with_boot(str(run.folder.boot), inherited)}
    if chosen.debug is not None:
        recorded["TFPROBE_DEBUG"] = chosen.debug
    if chosen.meter:
        _leave_meter(run, environment)
    if chosen.stacks:
        recorded.update(_start_stacks(run, environment))
    try:
        execute.become(command, recorded)
    except execute.TooLong as problem:
        # Perhaps by our one entry, so once more without it.
        prepare.discard(run)
        _run_unrecorded(problem, command, environment)
    except TfprobeError:
        prepare.discard(run)
        raise


def _note_exit(run: prepare.PreparedRun, pid: int, status: int) -> None:
    from tfprobe.launch.supervise import write_exit

    try:
        write_exit(run.folder, pid, status)
    except OSError as problem:
        complain(f"The end of the job could not be recorded: {problem}")


def _leave_meter(run: prepare.PreparedRun, environment: dict[str, str]) -> None:
    try:
        sidecars.meter(run.folder, environment, is_shared=run.is_shared)
    except Exception:
        pass  # accelerators go unmetered; whatever is wrong with us, the job runs


def _start_stacks(run: prepare.PreparedRun, environment: dict[str, str]) -> dict[str, str]:
    try:
        # Imported here: ctypes takes longer to import than the rest of a launch.
        from tfprobe.launch.sidecars import start_stack_sampler

        variables, refusal = start_stack_sampler(run.folder, environment, is_shared=run.is_shared)
    except Exception as problem:
        variables, refusal = {}, str(problem)
    if refusal:
        complain(f"Stacks are not sampled: {refusal}. The job runs without them.")
    return variables


def _wait_for_stacks(run: prepare.PreparedRun) -> None:
    from tfprobe.runs import sampler_lock

    sampler_lock.wait_until_written(run.folder, _LAST_STACKS_S)


def _run_unrecorded(
    problem: Exception, command: list[str], environment: dict[str, str]
) -> NoReturn:
    # Whatever is wrong with us, the job runs; that is why every error ends here.
    complain(f"{problem} The command runs unrecorded.")
    execute.become(command, environment)


def _others_run(run: prepare.PreparedRun) -> bool:
    # Of several launches the last to end reports, of each machine.
    if not run.is_shared:
        return False
    from tfprobe.launch import joining

    return joining.is_running(run.folder)


def _report(run: prepare.PreparedRun) -> None:
    # The text report, but on stderr: stdout is the job's alone, even after its end.
    try:
        from tfprobe.cli import commands

        with contextlib.redirect_stdout(sys.stderr):
            commands.main(["report", str(run.folder.root)])
    except Exception as problem:
        complain(f"The report of {run.folder.root} failed: {problem}")


class _HelpAsked(UsageError):
    """--help or -h stands among our own options."""


def __getattr__(name: str) -> Any:
    # `command` is for help pages and completion; building it imports click.
    if name == "command":
        return _click_command()
    raise AttributeError(name)


def _click_command() -> click.Command:
    import click

    params: list[click.Parameter] = [
        click.Option(
            [*option.flags, option.name],
            metavar=option.metavar,
            is_flag=option.metavar is None,
            multiple=option.is_repeatable,
            help=option.help,
        )
        for option in OPTIONS
    ]
    params.append(click.Argument(["command"], nargs=-1, type=click.Path(), metavar="COMMAND..."))
    return click.Command(
        "run",
        params=params,
        callback=lambda **_: None,
        help="Run COMMAND and record it.\n\n"
        "The command begins after `--`, or at the first word that is not an option of tfprobe. It "
        "runs unchanged: its process id, exit status, signals and output are its own.",
        options_metavar="[OPTIONS] [--]",
        context_settings={"allow_interspersed_args": False},
    )
