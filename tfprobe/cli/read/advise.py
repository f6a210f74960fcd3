"""`tfprobe advise`: suggest optimizations, with evidence and an upper bound of the gain."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import click

from tfprobe.cli import common
from tfprobe.cli.common import Workers, workers_options
from tfprobe.cli.main import complain
from tfprobe.errors import Missing, NoAnswer, UsageError
from tfprobe.launch import environ

if TYPE_CHECKING:
    from tfprobe.findings.engine import Advice
    from tfprobe.findings.thresholds import Thresholds
    from tfprobe.profile.profile import Run

ALL_CHECKERS = "all"


@click.command("advise")
@common.markdown_option
@common.rank_option
@workers_options
@click.option(
    "--threshold",
    "words",
    multiple=True,
    metavar="NAME=VALUE",
    help="Override a threshold; docs/advice.md lists the names. May be repeated.",
)
@click.option(
    "--checkers",
    metavar="NAMES",
    help="Answer as tfprof's `advise` did, with these of its checkers: A,B or `all`.",
)
@common.run_argument
def command(
    run: str,
    output: str | None,
    as_json: bool,
    markdown: str | None,
    rank: int | None,
    workers: int | None,
    dask: str | None,
    words: tuple[str, ...],
    checkers: str | None,
) -> int:
    """Suggest optimizations, with evidence and an upper bound of the gain.

    RUN is a directory, a run id, or `latest`, the default; or a file that `tfprobe op` reads. The
    exit status is 1 if no steps were recorded.
    """
    limits = _thresholds(words)
    if checkers is not None:
        _check_parity(as_json=as_json, markdown=markdown, words=words)
        return _answer_as_tfprof(run, output, rank, checkers)
    if common.is_file(run):
        advice, of_run = _of_file(run, output, rank, limits)
    else:
        advice, of_run = _of_run(run, output, rank, limits, Workers(workers, dask))
    _show(advice, of_run, as_json=as_json, markdown=markdown)
    return 0


def _of_file(
    run: str, output: str | None, rank: int | None, limits: Thresholds
) -> tuple[Advice, Run]:
    from tfprobe.cli import loop_selection
    from tfprobe.findings.engine import advise

    found = loop_selection.read(run, output, loop="", rank=rank)
    return advise(found.whole, found.sampled, limits), found.whole.run


def _of_run(
    run: str, output: str | None, rank: int | None, limits: Thresholds, workers: Workers
) -> tuple[Advice, Run]:
    """Return the advice on a run.

    Raises NoAnswer where there are no steps.
    """
    folder = common.chosen_run(run, output)
    found = common.answered(folder, rank=rank, workers=workers, limits=limits)
    report = found.report
    common.warn_of_problems(report)
    loops = (each.loop for process in report.processes for each in process.loops)
    if not any(loop.executed for loop in loops):
        raise NoAnswer(f"Run {folder.id} has no steps.", hint=" ".join(report.silences))
    return found.advice, report.run


def _thresholds(words: tuple[str, ...]) -> Thresholds:
    """Return the thresholds: of the command line, of tfprobe.toml, by default.

    Raises UsageError for a name that is none or a value that is no number.
    """
    from tfprobe.findings.thresholds import DEFAULTS, changed, parse
    from tfprobe.launch.settings import choose, read_table

    limits = DEFAULTS
    file = choose(environ.working_directory(), environ.inherited())
    if file is not None:
        limits = changed(limits, read_table(file, "advice"), source=file.path)
    return changed(limits, parse(words), source="--threshold")


def _show(advice: Advice, run: Run, *, as_json: bool, markdown: str | None) -> None:
    from tfprobe.report.text.findings import render_advice, render_advice_markdown

    command = run.command
    title = run.id if isinstance(command, Missing) else shlex.join(command)
    if as_json:
        common.show_json(_document(advice, run))
    if markdown is not None:
        common.write_file(markdown, render_advice_markdown(advice, title))
    if not as_json and markdown is None:
        width, colour = common.page_width(), common.page_colour()
        common.show_page(render_advice(advice, title, width=width, colour=colour))


def _document(advice: Advice, run: Run) -> dict[str, Any]:
    """Return the tfprobe.advise/1 document. Any: a JSON document."""
    from tfprobe.report.documents.document import published
    from tfprobe.report.documents.findings_document import advice_document
    from tfprobe.report.documents.run_report import run_document

    head = {"schema": "tfprobe.advise/1", "run": run_document(run)}
    return published(head | advice_document(advice))


def _check_parity(*, as_json: bool, markdown: str | None, words: tuple[str, ...]) -> None:
    if as_json or markdown is not None or words:
        raise UsageError(
            "--checkers cannot be combined with --json, --md or --threshold.",
            hint="It answers in the words of tfprof only.",
        )


def _answer_as_tfprof(run: str, output: str | None, rank: int | None, names: str) -> int:
    """Show the advice of TensorFlow's old profiler on the loop with most time, in its words."""

    from tfprobe.analysis.ops.tfprof_records import graph_profile
    from tfprobe.cli.read.views import found_sampled
    from tfprobe.tfprof.advice import advice_text
    from tfprobe.tfprof.advice import advise as advise_as_tfprof

    chosen = None if names == ALL_CHECKERS else [name for name in names.split(",") if name]
    found = found_sampled(run, output, rank=rank)
    advice = advise_as_tfprof(graph_profile(found), chosen)
    for remark in advice.remarks:
        complain(remark)
    common.show(advice_text(advice))
    return 0
