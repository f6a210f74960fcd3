"""`tfprobe advise`: what of a run costs time that could be won, and what to do about it."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import click

from tfprobe.cli import reading
from tfprobe.errors import Missing, NoAnswer, UsageError
from tfprobe.launch import environ

if TYPE_CHECKING:
    from tfprobe.advice.engine import Advice
    from tfprobe.advice.thresholds import Thresholds
    from tfprobe.model.profile import Profile
    from tfprobe.model.sampled import SampledWork

ALL_CHECKERS = "all"


@click.command("advise")
@reading.run_argument
@click.option("--md", "markdown", metavar="FILE", help="Write Markdown to FILE instead.")
@click.option("--rank", type=int, metavar="R", help="Only the processes of this rank.")
@click.option(
    "--threshold",
    "words",
    multiple=True,
    metavar="NAME=VALUE",
    help="Compare with another number; docs/advice.md lists the names. May be given several times.",
)
@click.option(
    "--checkers",
    metavar="NAMES",
    help="Answer as tfprof's advise did, with these of its checkers (A,B or `all`).",
)
def command(
    run: str,
    output: str | None,
    as_json: bool,
    markdown: str | None,
    rank: int | None,
    words: tuple[str, ...],
    checkers: str | None,
) -> int:
    """Say what of a run costs time that could be won, and what to do about it.

    RUN is a directory, a run id, or `latest`, the default; or a file from elsewhere, as for `op`.
    The status is 1 when nothing was recorded to go by.
    """
    limits = _thresholds(words)
    if checkers is not None:
        _check_parity(as_json=as_json, markdown=markdown, words=words)
        return _answer_as_tfprof(run, output, rank, checkers)
    profile, sampled = _read(run, output, rank)
    from tfprobe.advice.engine import advise

    _show(advise(profile, sampled, limits), profile, as_json=as_json, markdown=markdown)
    return 0


def _read(
    run: str, output: str | None, rank: int | None
) -> tuple[Profile, tuple[SampledWork, ...]]:
    """Return what RUN holds, a run or a file, and its dearest work with its graph.

    Raises NoAnswer where there are no steps.
    """
    if reading.is_file(run):
        from tfprobe.cli import one_work

        found = one_work.read(run, output, work="", rank=rank)
        return found.whole, found.sampled
    folder = reading.chosen_run(run, output)
    with reading.progress("Reading captures") as watch:
        from tfprobe.ingest.run import load
        from tfprobe.ingest.sampled import dearest
        from tfprobe.store.liveness import this_machine

        profile = load(folder, this_machine(), rank=rank, watch=watch)
        sampled = dearest(folder, profile)
    reading.warn_of_problems(profile)
    if not any(work.executed for work in profile.works):
        from tfprobe.views import silence

        raise NoAnswer(f"Run {folder.id} has no steps.", hint=" ".join(silence.explain(profile)))
    return profile, sampled


def _thresholds(words: tuple[str, ...]) -> Thresholds:
    """Return the thresholds: of the command line, of tfprobe.toml, by default.

    Raises UsageError for a name that is none or a value that is no number.
    """
    from tfprobe.advice.thresholds import DEFAULTS, changed, parse
    from tfprobe.launch import config_file

    limits = DEFAULTS
    path = config_file.find(environ.working_directory())
    if path is not None:
        limits = changed(limits, config_file.read_table(path, "advice"), source=path)
    return changed(limits, parse(words), source="--threshold")


def _show(advice: Advice, profile: Profile, *, as_json: bool, markdown: str | None) -> None:
    from tfprobe.terminal.advice import lay_out, lay_out_markdown

    command = profile.run.command
    title = profile.run.id if isinstance(command, Missing) else shlex.join(command)
    if as_json:
        reading.show_json(_document(advice, profile))
    if markdown is not None:
        reading.write_file(markdown, lay_out_markdown(advice, title))
    if not as_json and markdown is None:
        width, colour = reading.page_width(), reading.page_colour()
        reading.show(lay_out(advice, title, width=width, colour=colour))


def _document(advice: Advice, profile: Profile) -> dict[str, Any]:
    """Return the tfprobe.advise/1 document. Any: a JSON document."""
    from tfprobe.advice import engine
    from tfprobe.views.report import run_document

    head = {"schema": "tfprobe.advise/1", "run": run_document(profile.run)}
    return head | engine.document(advice)


def _check_parity(*, as_json: bool, markdown: str | None, words: tuple[str, ...]) -> None:
    if as_json or markdown is not None or words:
        raise UsageError(
            "--checkers answers in tfprof's words alone.",
            hint="Leave out --json, --md and --threshold.",
        )


def _answer_as_tfprof(run: str, output: str | None, rank: int | None, names: str) -> int:
    """Show what the checkers of TensorFlow's old profiler say of the dearest work, in its words."""
    import sys

    from tfprobe.cli.views import found_sampled
    from tfprobe.tfprof.advice import advice_text
    from tfprobe.tfprof.advice import advise as advise_as_tfprof
    from tfprobe.views.records import graph_profile

    chosen = None if names == ALL_CHECKERS else [name for name in names.split(",") if name]
    found = found_sampled(run, output, rank=rank)
    advice = advise_as_tfprof(graph_profile(found), chosen)
    for remark in advice.remarks:
        sys.stderr.write(f"tfprobe: {remark}\n")
    reading.show(advice_text(advice))
    return 0
