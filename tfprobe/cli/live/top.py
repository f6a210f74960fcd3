"""`tfprobe top`: watch runs and their processes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tfprobe.cli import common
from tfprobe.errors import NoAnswer, UsageError
from tfprobe.launch import environ

if TYPE_CHECKING:
    from tfprobe.profile.snapshots import FleetSnapshot


# For how long captures may be read for one snapshot.
CAPTURES_S = 2.0
# Faster than a person reads is only work for the machine that the jobs run on.
_LEAST_EVERY_S = 0.2
# A day: for longer periods there is `--once`.
_MOST_EVERY_S = 86_400
# What a terminal calls itself that can neither move its cursor nor show colour.
_DUMB = ("", "dumb")


@click.command("top")
@click.argument("place", required=False, metavar="[RUN|DIR]")
@click.option(
    "--every",
    "every_s",
    type=float,
    default=1.0,
    metavar="S",
    help="Seconds between updates.  [default: 1]",
)
@click.option(
    "--once", is_flag=True, help="Print one table and exit; the default without a terminal."
)
@common.output_option
@common.json_option
def command(
    place: str | None, output: str | None, every_s: float, once: bool, as_json: bool
) -> int:
    """Watch runs and their processes: how fast they are, and what they wait for.

    RUN is a directory, a run id, or `latest`. For DIR, by default the directory of all runs, all of
    its runs are shown. Press ? for help. The exit status is 1 if there is no run.
    """
    from tfprobe.live.breakdown_cache import BreakdownCache, within
    from tfprobe.live.watched_runs import Fleet
    from tfprobe.runs.liveness import this_machine

    # Written so that it holds for no NaN.
    if not _LEAST_EVERY_S <= every_s <= _MOST_EVERY_S:
        hint = f"Use {_LEAST_EVERY_S} to {_MOST_EVERY_S} seconds."
        raise UsageError(f"--every {every_s:g} is out of range.", hint=hint)
    directory = _directory(place, output)
    here = this_machine()
    if as_json or once or not _is_live_terminal():
        time_use = within(CAPTURES_S, BreakdownCache(core_ratio=1).time_use)
        snapshot = Fleet(directory, here, latest=time_use).look()
        return _show_json(snapshot, directory) if as_json else _show_once(snapshot, directory)
    from tfprobe.live.top.app import run
    from tfprobe.live.top.run_source import LiveSource

    fleet = Fleet(directory, here, latest=BreakdownCache().time_use)
    return run(LiveSource(fleet, here), every_s=every_s)


def _directory(place: str | None, output: str | None) -> Path:
    """Return what to watch: a directory of runs, or one run."""
    if place is None:
        return common.output_directory(output)
    if Path(place).is_dir():
        return Path(place)
    return common.chosen_run(place, output).root


def _is_live_terminal() -> bool:
    # textual draws on stderr, so that is looked at, too.
    streams = (sys.stdin, sys.stdout, sys.stderr)
    if not all(stream is not None and stream.isatty() for stream in streams):
        return False
    return environ.inherited().get("TERM", "") not in _DUMB


def _show_json(snapshot: FleetSnapshot, directory: Path) -> int:
    from tfprobe.report.documents.document import published
    from tfprobe.report.documents.jobs_document import jobs_document

    _check(snapshot, directory)
    common.show_json(published(jobs_document(snapshot)))
    return 0


def _show_once(snapshot: FleetSnapshot, directory: Path) -> int:
    from tfprobe.analysis.jobs.fleet import run_rows
    from tfprobe.live.top.snapshot_table import lay_out
    from tfprobe.live.top.source import TopSnapshot

    _check(snapshot, directory)
    rows = TopSnapshot(snapshot.directory, snapshot.at_unix_ns, run_rows(snapshot))
    common.show_page(lay_out(rows, width=common.page_width(), colour=common.page_colour()))
    return 0


def _check(snapshot: FleetSnapshot, directory: Path) -> None:
    """Raise NoAnswer if there is no run."""
    if not snapshot.runs:
        why = " ".join(problem.what for problem in snapshot.problems)
        hint = why or "Record one with `tfprobe run -- COMMAND`."
        raise NoAnswer(f"There is no run in {directory}.", hint=hint)
