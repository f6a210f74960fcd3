"""`tfprobe try`: apply fixes to a job, run it with and without them, and say what they win."""

from __future__ import annotations

import shlex
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tfprobe.cli import common
from tfprobe.cli.common import Workers
from tfprobe.cli.main import complain
from tfprobe.cli.run_filters import as_age
from tfprobe.errors import Missing, NoAnswer, UsageError
from tfprobe.launch import environ, execute

if TYPE_CHECKING:
    from tfprobe.findings.fixes import ChosenFix
    from tfprobe.findings.trials import Prediction, Trial
    from tfprobe.runs.layout import RunFolder
    from tfprobe.trial.arms import TriedJob
    from tfprobe.trial.conduct import Exclude
    from tfprobe.trial.workspace import Workspace

_COMMAND = "command"
_SEPARATOR = "--"
# As of a program that SIGINT ended.
_INTERRUPTED = 130
# The keys of `findings.fixes.DELAYS`, which this command imports only once it has something to do.
_PARTS = ("input", "between", "step")
_NO_FIX = "Name one: `tfprobe try --list` lists them, and `tfprobe advise` says what costs time."


class _Command(click.Command):
    """A command whose arguments end at `--`; the rest is the command of the job."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Split the arguments before click sees them."""
        if _SEPARATOR in args:
            at = args.index(_SEPARATOR)
            args, ctx.meta[_COMMAND] = args[:at], args[at + 1 :]
        return super().parse_args(ctx, args)


@click.command(
    "try",
    cls=_Command,
    options_metavar="[OPTIONS]",
    epilog="Example: tfprobe try -- python train.py",
)
@click.argument("fixes", nargs=-1, metavar="[FIX[=VALUE]]... -- COMMAND...")
@click.option("--list", "as_list", is_flag=True, help="List the fixes that apply, and end.")
@click.option(
    "--budget",
    "budget_ns",
    default="10m",
    show_default=True,
    metavar="TIME",
    callback=as_age,
    help="Spend at most this time, as in 90s or 10m.",
)
@click.option(
    "--steps", type=click.IntRange(min=16), metavar="N", help="Measure N steps of each process."
)
@click.option(
    "--delay",
    "delays",
    multiple=True,
    metavar="PART",
    type=click.Choice(_PARTS),
    help=f"Slow a part down instead, to see what waits for it: {', '.join(_PARTS)}.",
)
@click.option(
    "--patch",
    "patch_file",
    metavar="FILE",
    help="Write a unified diff of the job's source with the fixes that won to FILE.",
)
@click.option("-y", "--yes", is_flag=True, help="Start without asking.")
@common.output_option
@common.json_option
@click.pass_context
def command(
    ctx: click.Context,
    fixes: tuple[str, ...],
    output: str | None,
    budget_ns: int,
    steps: int | None,
    delays: tuple[str, ...],
    patch_file: str | None,
    *,
    as_list: bool,
    yes: bool,
    as_json: bool,
) -> int:
    """Run a job with and without a FIX, and say what the fix wins.

    The job runs several times, a few steps each, and is not changed: fixes are applied in its
    processes, and its files are overlaid. Without FIX, those are tried that the findings of the
    newest run of COMMAND name, or of a first short recording. With --delay, a part of the job is
    slowed down instead: what is won there at most, where no fix reaches.
    """
    job_command = tuple(ctx.meta.get(_COMMAND, ()))
    if not job_command and not as_list:
        raise UsageError(
            "No command was given.", hint="Add one, as in `tfprobe try -- python train.py`."
        )
    if delays and (fixes or patch_file):
        other = "a FIX" if fixes else "--patch"
        raise UsageError(f"--delay slows the job down, and {other} was given, too.")
    from tfprobe.findings.fixes import chosen
    from tfprobe.trial.allocator import with_library

    named = tuple(with_library(chosen(word)) for word in fixes)
    directory = common.output_directory(output)
    known = _newest_run(job_command, directory) if job_command else None
    if as_list:
        return _list(known)
    execute.locate(job_command[0], environ.inherited())
    with common.until_terminated(), _scratch() as scratch:
        return _try(
            _Request(
                job_command,
                named,
                delays,
                directory,
                budget_ns / 1e9,
                steps,
                patch_file,
                yes=yes,
                as_json=as_json,
            ),
            known,
            scratch,
        )


@dataclass(frozen=True, slots=True)
class _Request:
    """What was asked for; `directory` is that of all runs."""

    command: tuple[str, ...]
    named: tuple[ChosenFix, ...]
    delays: tuple[str, ...]
    directory: Path
    budget_s: float
    steps: int | None
    patch_file: str | None
    yes: bool
    as_json: bool


def _try(request: _Request, known: RunFolder | None, scratch: Path) -> int:
    from tfprobe.report.trial.trial_document import trial_document
    from tfprobe.trial.arms import TriedJob
    from tfprobe.trial.conduct import record
    from tfprobe.trial.pressure import cpu_pressure
    from tfprobe.trial.store import save
    from tfprobe.trial.workspace import workspace

    cwd = Path(environ.working_directory())
    place = workspace(cwd, scratch)
    job = TriedJob(request.command, environ.inherited(), place)
    found = None if known is None else _Found(known)
    plan = _planned(request, found)
    _ask(request, place, plan)
    pressure = cpu_pressure()
    if plan is None:
        found = _Found(record(job, _progress()))
        plan = _planned(request, found)
    assert plan is not None  # something was named, or there is a recording
    trial = _conducted(request, job, plan, found, pressure)
    document = trial_document(trial)
    _show(trial, document, as_json=request.as_json)
    try:
        path = save(document, request.directory, trial.started_unix_ns)
    except OSError as problem:
        complain(f"The trial could not be kept in {request.directory}: {problem.strerror}.")
    else:
        complain(f"the trial is in {path}")
    if request.patch_file is not None:
        _write_patch(trial, request.patch_file, cwd)
    return _INTERRUPTED if trial.interrupted else 0


@dataclass(frozen=True, slots=True)
class _Plan:
    """The fixes to try, and those that can change nothing in this job, with the reason."""

    tried: tuple[ChosenFix, ...]
    not_applied: tuple[tuple[ChosenFix, str], ...] = ()


def _planned(request: _Request, found: _Found | None) -> _Plan | None:
    """Decide what to try; None where only a recording can tell.

    Raises NoAnswer where there is nothing to try.
    """
    if request.delays:
        return _Plan(())
    from tfprobe.findings.applicability import RecordedJob, divided

    if found is None and not request.named:
        return None
    fixes = request.named or (() if found is None else found.fixes)
    if not fixes:
        raise NoAnswer("No finding of this job names a fix that can be tried.", hint=_NO_FIX)
    plan = _Plan(*divided(fixes, RecordedJob() if found is None else found.job))
    if not plan.tried:
        whys = "; ".join(f"{chosen.text}: {why}" for chosen, why in plan.not_applied)
        raise NoAnswer(f"No fix can change anything in this job. {whys}.", hint=_NO_FIX)
    return plan


def _conducted(
    request: _Request, job: TriedJob, plan: _Plan, found: _Found | None, pressure: float | None
) -> Trial:
    """Run the trial. Raises BaseFailed."""
    from tfprobe.findings.trials import not_applied
    from tfprobe.trial.conduct import Conductor, TrialLimits
    from tfprobe.trial.delaying import DelayConductor
    from tfprobe.trial.pressure import is_busy

    unit = None if found is None else found.unit
    conductor = (DelayConductor if request.delays else Conductor)(
        job,
        TrialLimits(request.budget_s, request.steps),
        is_busy=is_busy(pressure),
        pressure_ratio=pressure,
        watch=_progress(),
    )
    if isinstance(conductor, DelayConductor):
        return conductor.conduct_delays(request.delays, unit)
    predictions = {} if found is None else found.predictions
    exclude = None if found is not None else _excluded_of(plan.tried)
    trial = conductor.conduct(plan.tried, unit, predictions, exclude)
    others = (
        not_applied(chosen, why, predictions.get(chosen.fix.id)) for chosen, why in plan.not_applied
    )
    return replace(trial, fixes=(*trial.fixes, *others))


def _excluded_of(fixes: Sequence[ChosenFix]) -> Exclude:
    """Return what says which of these fixes a recording excludes, and why."""
    from tfprobe.findings.applicability import reasons

    return lambda folder: reasons(fixes, _Found(folder).job)


def _write_patch(trial: Trial, file: str, cwd: Path) -> None:
    """Write what won into a diff, or say why there is none. Raises UsageError for a bad FILE."""
    from tfprobe.trial.patch import patch_of

    diff = patch_of(trial.fixes, cwd)
    if isinstance(diff, Missing):
        complain(f"No patch was written: {diff.reason}.")
    else:
        common.write_file(file, diff)


class _Found:
    """What a recording says of the job: its main loop, and which fixes may change something."""

    def __init__(self, folder: RunFolder) -> None:
        from tfprobe.analysis.core.main_loop import main_loop_first
        from tfprobe.findings.applicability import recorded_job
        from tfprobe.findings.fixes import unasked
        from tfprobe.findings.trials import Prediction

        answer = common.answered(folder, rank=None, workers=Workers(None, None))
        processes = answer.report.processes
        loops = main_loop_first(each.loop for process in processes for each in process.loops)
        self.job = recorded_job(
            [each.process for each in processes],
            (loop.kind for loop in loops),
            answer.report.accounts,
        )
        self.unit = (loops[0].kind, loops[0].name) if loops else None
        findings = answer.advice.findings
        self.fixes = unasked(findings)
        self.predictions: dict[str, Prediction] = {}
        for finding in findings:
            gain = finding.gain
            if not isinstance(gain, Missing):
                prediction = Prediction(finding.rule, gain.low_ratio, gain.high_ratio)
                for fix in finding.fixes:
                    self.predictions.setdefault(fix, prediction)


def _newest_run(command: Sequence[str], directory: Path) -> RunFolder | None:
    """Return the newest ended run of a command; None if there is none."""
    from tfprobe.runs.agent_files import mask_arguments
    from tfprobe.runs.catalogue import has_ended, list_runs
    from tfprobe.runs.liveness import this_machine

    here = this_machine()
    wanted = list(mask_arguments(list(command)))
    for entry in list_runs(directory, here) if directory.is_dir() else ():
        if isinstance(entry.manifest, Missing) or list(entry.manifest.command) != wanted:
            continue
        if has_ended(entry, here) and entry.steps:
            return entry.folder
    return None


def _list(known: RunFolder | None) -> int:
    from tfprobe.findings.applicability import RecordedJob, reasons
    from tfprobe.findings.fixes import FIXES, ChosenFix
    from tfprobe.report.trial.trial_page import render_fixes
    from tfprobe.trial.allocator import with_library

    offered = [with_library(ChosenFix(fix, fix.value)) for fix in FIXES]
    common.show_page(
        render_fixes(
            offered,
            reasons(offered, RecordedJob() if known is None else _Found(known).job),
            is_of_job=known is not None,
            width=common.page_width(),
            colour=common.page_colour(),
        )
    )
    return 0


def _ask(request: _Request, place: Workspace, plan: _Plan | None) -> None:
    """Say what will run, and ask. Raises UsageError where nobody can be asked."""
    if request.yes:
        return
    from tfprobe.trial.workspace import Isolation

    slowed = [f"a slower {part}" for part in request.delays]
    fixes = () if plan is None else plan.tried
    named = ", ".join(slowed + [one.text for one in fixes]) or "what the findings name"
    if place.isolation is Isolation.COPY:
        kept = "It runs in a copy of the working directory; what it writes elsewhere is kept."
    elif place.refused:
        but = ", ".join(map(str, place.refused))
        kept = f"Its files are overlaid: nothing that it writes is kept, but in {but}."
    else:
        kept = "Its files are overlaid: nothing that it writes is kept."
    complain(
        f"`{shlex.join(request.command)}` will be started again and again for up to "
        f"{request.budget_s:.0f} s, some steps each, as it is and with: {named}. {kept}"
    )
    if not sys.stdin.isatty():
        raise UsageError(
            "Nobody can be asked whether to start: stdin is no terminal.", hint="Add --yes."
        )
    click.confirm("Start?", abort=True, err=True)


def _show(trial: Trial, document: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        common.show_json(document)
        return
    from tfprobe.report.trial.trial_page import render_trial

    common.show_page(render_trial(trial, width=common.page_width(), colour=common.page_colour()))


def _progress() -> Callable[[str, float], None]:
    """Return what says on stderr what runs, and the time that is left."""
    began = time.monotonic()

    def watch(what: str, left_s: float) -> None:
        took_s = time.monotonic() - began
        complain(f"{took_s:4.0f} s: {what} (at most {left_s:.0f} s left)")

    return watch


@contextmanager
def _scratch() -> Iterator[Path]:
    """Give a directory for what arms write, and remove it."""
    path = Path(tempfile.mkdtemp(prefix="tfprobe-try-"))
    try:
        yield path
    finally:
        from tfprobe.trial.workspace import remove

        remove(path)
