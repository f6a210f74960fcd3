"""`tfprobe report`: what a run did and where its time went."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tfprobe.cli import reading
from tfprobe.cli.engine import Workers, workers_options
from tfprobe.errors import NoAnswer, UsageError
from tfprobe.printable import printable

if TYPE_CHECKING:
    from tfprobe.query.answers import Answer
    from tfprobe.runs.layout import RunFolder
    from tfprobe.web.opened import OpenRun

# Faster than a person reads is only work for the machine that the job runs on.
_LEAST_EVERY_S = 0.2


@click.command("report")
@reading.run_argument
@click.option("--md", "markdown", metavar="FILE", help="Write Markdown to FILE instead.")
@click.option("--html", metavar="FILE", help="Write all pages of `tfprobe ui` to FILE, to send.")
@click.option("--rank", type=int, metavar="R", help="Only the processes of this rank.")
@workers_options
@click.option("--follow", is_flag=True, help="Show it again as the job goes on, until it ends.")
@click.option(
    "--every",
    "every_s",
    type=click.FloatRange(min=_LEAST_EVERY_S),
    metavar="SECONDS",
    help="With --follow: from one look to the next, at least; default 1, for lines 5.",
)
def command(
    run: str,
    output: str | None,
    as_json: bool,
    markdown: str | None,
    html: str | None,
    rank: int | None,
    workers: int | None,
    dask: str | None,
    follow: bool,
    every_s: float | None,
) -> int:
    """Say what a run did and where its time went.

    RUN is a directory, a run id, or `latest`, the default. The status is 1 when nothing was
    recorded; the report says why. --html writes one file that needs no server and no network.

    With --follow a terminal shows the report as it changes; arrows, space, b, g and G scroll. When
    the run has ended, or on q (status 0) or Ctrl-C (status 130), the last one stays. Elsewhere each
    update is a line, and the report comes last. With --json each update is a document on a line.
    """
    if follow:
        if markdown is not None or html is not None:
            flag = "--md" if markdown is not None else "--html"
            hint = "Write it when the run has ended."
            raise UsageError(f"{flag} and --follow exclude each other.", hint=hint)
        return _follow(run, output, as_json=as_json, rank=rank, every_s=every_s)
    if every_s is not None:
        raise UsageError("--every says how often --follow looks.", hint="Add --follow.")
    folder = reading.chosen_run(run, output)
    if html is None:
        found = reading.answered(folder, rank=rank, workers=Workers(workers, dask))
    else:
        if workers is not None or dask is not None:
            flag = "--workers" if workers is not None else "--dask"
            raise UsageError(f"{flag} and --html exclude each other.", hint="Pages are made here.")
        found = _with_pages(folder, html, rank=rank, is_told=not as_json)
    # Imported here: `tfprobe --help` should not wait for numpy.
    from tfprobe.findings import engine
    from tfprobe.report.documents.run_report import document

    report, advice = found.report, found.advice
    if as_json:
        reading.show_json(document(report, engine.document(advice)["findings"]))
    if markdown is not None:
        from tfprobe.report.text.markdown import lay_out as lay_out_markdown

        reading.write_file(markdown, lay_out_markdown(report, advice))
    if not as_json and markdown is None and html is None:
        from tfprobe.report.text.report import lay_out

        text = lay_out(report, advice, width=reading.page_width(), colour=reading.page_colour())
        reading.show_page(text)
    has_steps = any(process.works for process in report.processes)
    return 0 if has_steps or report.run.is_live else NoAnswer.exit_code


def _with_pages(folder: RunFolder, path: str, *, rank: int | None, is_told: bool) -> Answer:
    """Write all pages, and return what the other forms of the report are made of."""
    from tfprobe.findings import engine
    from tfprobe.profile.reader.traced_steps import dearest
    from tfprobe.query.answers import Answer
    from tfprobe.report.documents.run_report import gather
    from tfprobe.runs.liveness import this_machine
    from tfprobe.web.opened import OpenRun

    opened = OpenRun(folder, this_machine(), rank=rank)
    with reading.progress("Reading captures") as watch:
        profile = opened.refresh(watch)
    _write_pages(path, opened, is_told=is_told)
    return Answer(gather(profile), engine.advise(profile, dearest(folder, profile)))


def _write_pages(path: str, run: OpenRun, *, is_told: bool) -> None:
    from tfprobe.report.format.numbers import size
    from tfprobe.web.onefile import page

    with reading.progress("Making pages") as watch:
        text = page(run, watch=watch)
    reading.write_whole(path, text)
    if is_told:
        told = size(len(text.encode()))
        reading.show(f"{printable(path)}\n{told}; open it in a browser, or send it.\n")


def _follow(
    run: str,
    output: str | None,
    *,
    as_json: bool,
    rank: int | None,
    every_s: float | None,
) -> int:
    from tfprobe.cli.follow import follow

    folder = reading.chosen_run(run, output)
    return follow(folder, rank=rank, every_s=every_s, as_json=as_json)
