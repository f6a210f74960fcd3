"""What `tfprobe report --follow` does: a page on a terminal, else a line or document an update."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from tfprobe.cli import reading
from tfprobe.errors import Missing, NoAnswer
from tfprobe.launch import environ

if TYPE_CHECKING:
    from tfprobe.live.reports import MadeReport, Reports
    from tfprobe.report.format.followed import Shown
    from tfprobe.runs.layout import RunFolder

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

    def next(self, watch: Callable[[int, int], None]) -> Shown | Missing:
        from tfprobe.report.format.followed import Shown

        made = self._reports.next(watch)
        if isinstance(made, Missing):
            return made
        return Shown(made.report, made.advice, made.at_unix_ns)


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
    from tfprobe.findings import engine
    from tfprobe.report.documents.run_report import document

    whole = document(made.report, engine.document(made.advice)["findings"])
    reading.show(json.dumps(whole, allow_nan=False) + "\n")


def _show_line(made: MadeReport) -> None:
    from tfprobe.report.format.followed_lines import line

    reading.show(line(made.report, at_unix_ns=made.at_unix_ns) + "\n")


def _show_report(made: MadeReport | Shown | None) -> None:
    if made is None:
        return
    from tfprobe.report.text.report import lay_out

    width, colour = reading.page_width(), reading.page_colour()
    reading.show_page(lay_out(made.report, made.advice, width=width, colour=colour))


def _status(made: MadeReport | Shown | None) -> int:
    has_steps = made is not None and any(process.works for process in made.report.processes)
    return 0 if has_steps else NoAnswer.exit_code


def _is_live_terminal() -> bool:
    streams = (sys.stdin, sys.stdout)
    if not all(stream is not None and stream.isatty() for stream in streams):
        return False
    return environ.inherited().get("TERM", "") not in _DUMB
