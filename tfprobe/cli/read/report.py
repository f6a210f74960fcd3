"""`tfprobe report`: what a run did and where its time went."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from tfprobe.cli import common
from tfprobe.cli.common import Workers, workers_options
from tfprobe.errors import Missing, NoAnswer, UsageError
from tfprobe.launch import environ
from tfprobe.printable import printable

if TYPE_CHECKING:
    from tfprobe.live.reports import MadeReport, Reports
    from tfprobe.query.run_reports import RunReport
    from tfprobe.report.format.followed import ShownReport
    from tfprobe.runs.layout import RunFolder
    from tfprobe.web.opened import OpenRun


# Faster than a person reads is only work for the machine that the job runs on.
_LEAST_EVERY_S = 0.2


@click.command("report")
@common.markdown_option
@click.option("--html", metavar="FILE", help="Write all pages of `tfprobe ui` to one FILE.")
@common.rank_option
@workers_options
@click.option("--follow", is_flag=True, help="Update the report until the job ends.")
@click.option(
    "--every",
    "every_s",
    type=click.FloatRange(min=_LEAST_EVERY_S),
    metavar="S",
    help="With --follow, seconds between updates.  [default: 1; 5 without a terminal]",
)
@common.run_argument
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
    """Show what a run did and where its time went.

    RUN is a directory, a run id, or `latest`, the default. The exit status is 1 if nothing was
    recorded; the report says why. The file that --html writes needs no server and no network.

    With --follow, a terminal shows the report as it changes. Scroll with the arrow keys, space, b,
    g and G; quit with q (status 0) or Ctrl-C (status 130). The last report stays on the screen.
    Without a terminal, each update is one line, and the report follows at the end. With --json,
    each update is one document on a line.
    """
    if follow:
        if markdown is not None or html is not None:
            flag = "--md" if markdown is not None else "--html"
            hint = "Write the file after the run has ended."
            raise UsageError(f"{flag} and --follow cannot be combined.", hint=hint)
        return _follow(run, output, as_json=as_json, rank=rank, every_s=every_s)
    if every_s is not None:
        raise UsageError("--every requires --follow.")
    folder = common.chosen_run(run, output)
    if html is None:
        found = common.answered(folder, rank=rank, workers=Workers(workers, dask))
    else:
        if workers is not None or dask is not None:
            flag = "--workers" if workers is not None else "--dask"
            raise UsageError(f"{flag} and --html cannot be combined.")
        found = _with_pages(folder, html, rank=rank, announces=not as_json)
    # Imported here: `tfprobe --help` should not wait for numpy.
    from tfprobe.report.documents.document import published
    from tfprobe.report.documents.run_report import report_document

    report, advice = found.report, found.advice
    if as_json:
        common.show_json(published(report_document(report, advice)))
    if markdown is not None:
        from tfprobe.report.text.markdown import render_report_markdown

        common.write_file(markdown, render_report_markdown(report, advice))
    if not as_json and markdown is None and html is None:
        from tfprobe.report.text.report import render_report

        text = render_report(report, advice, width=common.page_width(), colour=common.page_colour())
        common.show_page(text)
    has_steps = any(process.loops for process in report.processes)
    return 0 if has_steps or report.run.is_live else NoAnswer.exit_code


def _with_pages(folder: RunFolder, path: str, *, rank: int | None, announces: bool) -> RunReport:
    """Write all pages, and return what the other forms of the report are made of."""
    from tfprobe.findings import engine
    from tfprobe.findings.trials import with_measured
    from tfprobe.profile.reader.traced_steps import costliest_loop
    from tfprobe.query.run_reports import RunReport
    from tfprobe.report.documents.run_report import gather_report
    from tfprobe.runs.liveness import this_machine
    from tfprobe.runs.trials import trials_of
    from tfprobe.web.opened import OpenRun

    opened = OpenRun(folder, this_machine(), rank=rank)
    with common.progress("Reading captures") as watch:
        profile = opened.refresh(watch)
    _write_pages(path, opened, announces=announces)
    advice = engine.advise(profile, costliest_loop(folder, profile))
    trials = trials_of(profile.run.command, folder.root.parent)
    return RunReport(gather_report(profile), with_measured(advice, trials))


def _write_pages(path: str, run: OpenRun, *, announces: bool) -> None:
    from tfprobe.report.format.numbers import size
    from tfprobe.web.html_export import page

    with common.progress("Making pages") as watch:
        text = page(run, watch=watch)
    common.write_whole(path, text)
    if announces:
        size_text = size(len(text.encode()))
        common.show(f"{printable(path)}\n{size_text}; open it in a browser, or send it.\n")


def _follow(
    run: str,
    output: str | None,
    *,
    as_json: bool,
    rank: int | None,
    every_s: float | None,
) -> int:

    folder = common.chosen_run(run, output)
    return follow(folder, rank=rank, every_s=every_s, as_json=as_json)


_EVERY_S = 1.0
# Lines are kept: a job of a day need not fill a disk with them.
_LINE_EVERY_S = 5.0
# What a terminal calls itself that cannot move its cursor.
_DUMB = ("", "dumb")


def follow(folder: RunFolder, *, rank: int | None, every_s: float | None, as_json: bool) -> int:
    """Show the report of a run until it has ended; return the exit status."""
    from tfprobe.live.reports import Reports
    from tfprobe.runs.liveness import this_machine

    is_page = not as_json and _is_live_terminal()
    usual_s = _EVERY_S if is_page or as_json else _LINE_EVERY_S
    reports = Reports(folder, this_machine(), rank=rank, every_s=every_s or usual_s)
    if as_json:
        return _status(_each(reports, _show_document))
    if is_page:
        return _on_a_page(reports)
    last = _each(reports, _show_line)
    _show_report(last)
    return _status(last)


def _on_a_page(reports: Reports) -> int:
    from tfprobe.report.format.followed import FollowedReport

    page = FollowedReport(_PageSource(reports))
    page.run()
    _show_report(page.shown)
    if page.trouble is not None:
        raise page.trouble
    return page.return_code or (_status(page.shown) if reports.has_ended else 0)


class _PageSource:
    """What the page shows, of what is made."""

    def __init__(self, reports: Reports) -> None:
        self._reports = reports
        self.pause_s = reports.pause_s

    @property
    def has_ended(self) -> bool:
        return self._reports.has_ended

    def next(self, watch: Callable[[int, int], None]) -> ShownReport | Missing:
        from tfprobe.report.format.followed import ShownReport

        made = self._reports.next(watch)
        if isinstance(made, Missing):
            return made
        return ShownReport(made.report, made.advice, made.at_unix_ns)


def _each(reports: Reports, show: Callable[[MadeReport], None]) -> MadeReport | None:
    """Show each report that is made, and return the last."""
    last = None
    while True:
        made = reports.next()
        if not isinstance(made, Missing):
            show(made)
            last = made
        if reports.has_ended:
            return last
        time.sleep(reports.pause_s())


def _show_document(made: MadeReport) -> None:
    from tfprobe.report.documents.document import published
    from tfprobe.report.documents.run_report import report_document

    whole = published(report_document(made.report, made.advice))
    common.show(json.dumps(whole, allow_nan=False) + "\n")


def _show_line(made: MadeReport) -> None:
    from tfprobe.report.format.followed import line

    common.show(line(made.report, at_unix_ns=made.at_unix_ns) + "\n")


def _show_report(made: MadeReport | ShownReport | None) -> None:
    if made is None:
        return
    from tfprobe.report.text.report import render_report

    width, colour = common.page_width(), common.page_colour()
    common.show_page(render_report(made.report, made.advice, width=width, colour=colour))


def _status(made: MadeReport | ShownReport | None) -> int:
    has_steps = made is not None and any(process.loops for process in made.report.processes)
    return 0 if has_steps else NoAnswer.exit_code


def _is_live_terminal() -> bool:
    streams = (sys.stdin, sys.stdout)
    if not all(stream is not None and stream.isatty() for stream in streams):
        return False
    return environ.inherited().get("TERM", "") not in _DUMB
