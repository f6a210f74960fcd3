"""`tfprobe top`: watch runs and their processes, now and once a second."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tfprobe.cli import reading
from tfprobe.errors import Missing, NoAnswer, UsageError
from tfprobe.launch import environ

if TYPE_CHECKING:
    from collections.abc import Callable

    from tfprobe.profile.snapshots import FleetLook, TimeUse
    from tfprobe.runs.layout import ProcessFolder

# What reading captures may take of one look.
CAPTURES_S = 2.0
# Faster than a person reads is only work for the machine that the jobs run on.
_LEAST_EVERY_S = 0.2
# A day: whoever looks as seldom wants `--once`.
_MOST_EVERY_S = 86_400
# What a terminal calls itself that can neither move its cursor nor show colour.
_DUMB = ("", "dumb")


@click.command("top")
@click.argument("place", required=False, metavar="[RUN|DIR]")
@click.option("-o", "--output", metavar="DIR", help="Directory of all runs, as for `run`.")
@click.option(
    "--every",
    "every_s",
    type=float,
    default=1.0,
    metavar="S",
    help="Seconds from one look to the next; default 1.",
)
@click.option("--once", is_flag=True, help="Print one table, as is done without a terminal.")
@click.option("--json", "as_json", is_flag=True, help="Print one document.")
def command(
    place: str | None, output: str | None, every_s: float, once: bool, as_json: bool
) -> int:
    """Watch runs and their processes: which run, how fast, and what they wait for.

    RUN is a directory, a run id or `latest`; of DIR, by default where `run` keeps them, all runs
    are shown. `?` says what keys and marks mean. The status is 1 when there is no run.
    """
    from tfprobe.live.fleet import Fleet
    from tfprobe.live.latest import Latest
    from tfprobe.runs.liveness import this_machine

    # Written so that it holds for no NaN.
    if not _LEAST_EVERY_S <= every_s <= _MOST_EVERY_S:
        hint = f"Give seconds, {_LEAST_EVERY_S} to {_MOST_EVERY_S}."
        raise UsageError(f"--every {every_s:g} is no time between looks.", hint=hint)
    directory = _directory(place, output)
    here = this_machine()
    if as_json or once or not _is_live_terminal():
        look = Fleet(directory, here, latest=_for_a_while(Latest(core_ratio=1).time_use)).look()
        return _show_json(look, directory) if as_json else _show_once(look, directory)
    from tfprobe.cli.top_source import LiveSource
    from tfprobe.live.top.app import run

    return run(LiveSource(Fleet(directory, here, latest=Latest().time_use), here), every_s=every_s)


def _for_a_while(
    time_use: Callable[[ProcessFolder], TimeUse],
) -> Callable[[ProcessFolder], TimeUse]:
    """Have captures read until that has taken long enough; of one look nobody waits for more."""
    from tfprobe.profile.snapshots import TimeUse

    until_s = time.monotonic() + CAPTURES_S

    def until_then(folder: ProcessFolder) -> TimeUse:
        if time.monotonic() < until_s:
            return time_use(folder)
        why = Missing("its captures were not read: those of others took long enough")
        return TimeUse(why, why)

    return until_then


def _directory(place: str | None, output: str | None) -> Path:
    """Return what to watch: a directory of runs, or one run."""
    if place is None:
        return reading.output_directory(output)
    if Path(place).is_dir():
        return Path(place)
    return reading.chosen_run(place, output).root


def _is_live_terminal() -> bool:
    # textual draws on stderr, so that is looked at, too.
    streams = (sys.stdin, sys.stdout, sys.stderr)
    if not all(stream is not None and stream.isatty() for stream in streams):
        return False
    return environ.inherited().get("TERM", "") not in _DUMB


def _show_json(look: FleetLook, directory: Path) -> int:
    from tfprobe.analysis.jobs.fleet import document

    _check(look, directory)
    reading.show_json(document(look))
    return 0


def _show_once(look: FleetLook, directory: Path) -> int:
    from tfprobe.analysis.jobs.fleet import run_rows
    from tfprobe.live.top.once import lay_out
    from tfprobe.live.top.source import Seen

    _check(look, directory)
    seen = Seen(look.directory, look.at_unix_ns, run_rows(look))
    reading.show_page(lay_out(seen, width=reading.page_width(), colour=reading.page_colour()))
    return 0


def _check(look: FleetLook, directory: Path) -> None:
    """Raise NoAnswer where there is no run."""
    if not look.runs:
        why = " ".join(problem.what for problem in look.problems)
        hint = why or "Record one with `tfprobe run -- COMMAND`."
        raise NoAnswer(f"There is no run in {directory}.", hint=hint)
