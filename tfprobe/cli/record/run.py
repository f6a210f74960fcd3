"""`tfprobe run`: record a job. Imports little, because every job waits for it."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfprobe.cli.main import complain
from tfprobe.errors import UsageError
from tfprobe.launch.job import launch

if TYPE_CHECKING:
    import click

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
    return launch(flags, command, complain=complain, report=_report)


def wants_help(arguments: Sequence[str]) -> bool:
    """Say whether --help is among the options of tfprobe, for which click is needed."""
    try:
        parse(arguments)
    except _HelpRequested:
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


def _option(word: str) -> tuple[Option, str | None]:
    name, equals, value = word.partition("=")
    for option in OPTIONS:
        if name in option.flags and not (equals and option.metavar is None):
            return option, value if equals else None
        short = option.flags[0]
        if option.metavar and len(short) == 2 and word.startswith(short):
            return option, word[2:]
    if word in ("-h", "--help"):
        raise _HelpRequested(word)
    raise UsageError(f"No such option: {word}.", hint=_SEE_HELP)


def _report(run: Path) -> None:
    # The text report, but on stderr: stdout is the job's alone, even after its end.
    try:
        from tfprobe.cli import commands

        with contextlib.redirect_stdout(sys.stderr):
            commands.main(["report", str(run)])
    except Exception as problem:
        complain(f"The report of {run} failed: {problem}")


class _HelpRequested(UsageError):
    """--help or -h is among the options of tfprobe."""


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
