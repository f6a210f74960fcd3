"""`tfprobe ls`: the runs of a directory, newest first."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tfprobe.cli import common, run_filters
from tfprobe.errors import Missing, NoAnswer, TfprobeError, UnreadableInput, UsageError
from tfprobe.runs.layout import RunFolder

if TYPE_CHECKING:
    from tfprobe.analysis.compare.several_runs import TrendRow
    from tfprobe.profile.profile import Profile
    from tfprobe.profile.snapshots import RunLine

_NANOSECONDS = 1_000_000_000


@click.command("ls")
@click.argument("directory", required=False, metavar="[DIR]")
@run_filters.filter_options
@click.option("--limit", metavar="N", type=click.IntRange(min=1), help="List only the newest N.")
@click.option("--size", "with_size", is_flag=True, help="Show the size of each run on disk.")
@click.option(
    "--trend", "with_trend", is_flag=True, help="Compare the runs of one job over time instead."
)
@common.directory_option
@common.json_option
def command(
    directory: str | None,
    output: str | None,
    limit: int | None,
    with_size: bool,
    with_trend: bool,
    as_json: bool,
    **filter_values: Any,  # the filters, as click gives them
) -> int:
    """List runs, newest first, with state, age, processes, steps and command.

    Filters may be repeated; STATE, HOST and USER also accept lists, as in a,b. A run has failed if
    an exception ended it or its exit status was not 0. It was killed if it did not record its end.
    """
    from tfprobe.analysis.jobs.run_selection import Filtered, filter_runs
    from tfprobe.runs.catalogue import list_runs, measured
    from tfprobe.runs.liveness import this_machine

    filters = run_filters.filters(filter_values) if any(filter_values.values()) else None
    if with_trend and with_size:
        raise UsageError("--size and --trend cannot be combined.")
    if directory is not None and common.is_url(directory):
        from tfprobe.runs.remote.storage import shown as shown_url

        place = common.fetched_directory(directory, glance_only=not with_trend)
        named = shown_url(directory)
        hint = "A run appears there when `tfprobe push` has completed."
    else:
        place = place_of_runs(directory, output)
        named = str(place)
        hint = "Record one with `tfprobe run -- COMMAND`."
    runs = tuple(entry.line for entry in list_runs(place, this_machine()))
    now_ns = time.time_ns()
    filtered = Filtered(runs, ()) if filters is None else filter_runs(runs, filters, now_ns)
    shown = filtered.runs if with_trend else filtered.runs[:limit]
    if with_trend and shown:
        show(shown, limit=limit, as_json=as_json)
        return 0
    if with_size:
        shown = tuple(measured(run) for run in shown)
    if as_json:
        common.show_json({"schema": "tfprobe.ls/1", "runs": [document(run) for run in shown]})
        return 0
    if not runs:
        raise NoAnswer(f"There is no run in {named}.", hint=hint)
    if not shown:
        raise run_filters.nothing_left(named, len(runs), filtered)
    from tfprobe.report.text.runs import render_runs

    width, colour = common.page_width(), common.page_colour()
    common.show_page(render_runs(shown, now_ns, width=width, colour=colour))
    return 0


def place_of_runs(directory: str | None, output: str | None) -> Path:
    """Return the directory whose runs are meant.

    Raises UnreadableInput when the one that was named is none.
    """
    if directory is None:
        return common.output_directory(output)
    if common.is_url(directory):
        raise UsageError(
            "Runs in remote storage cannot be removed.", hint="Use the tools of the storage."
        )
    place = Path(directory)
    if not place.is_dir():
        raise UnreadableInput(
            f"{place} is not a directory.", hint="Name the directory given to `tfprobe run -o`."
        )
    return place


def document(run: RunLine) -> dict[str, Any]:
    """Return the JSON of one run. Any: a JSON document."""
    return {
        "id": run.id,
        "dir": run.directory,
        "command": None if isinstance(run.command, Missing) else list(run.command),
        "started": _known(run.started),
        "last_active": _moment(run.active_unix_ns),
        "host": _known(run.host),
        "hosts": list(run.hosts),
        "user": _known(run.user),
        "name": _known(run.name),
        "tags": dict(run.tags),
        "processes": run.processes,
        "steps": run.steps,
        "state": run.state,
        "size_bytes": _known(run.size_bytes),
    }


def _known(value: Any) -> Any:
    return None if isinstance(value, Missing) else value


def _moment(unix_ns: int | Missing) -> str | None:
    """Return a moment as run.json writes it; None also of what no calendar has."""
    if isinstance(unix_ns, Missing):
        return None
    try:
        moment = datetime.fromtimestamp(unix_ns // _NANOSECONDS, timezone.utc)
    except (OverflowError, OSError, ValueError):
        return None
    return moment.isoformat()


# Captures of each are read, and more do not fit on a screen.
_SHOWN_RUNS = 20


def show(runs: Sequence[RunLine], *, limit: int | None, as_json: bool) -> None:
    """Show the job that ran last, its newest runs, the oldest first."""
    # Imported here: a listing reads no captures and compares nothing.
    from tfprobe.analysis.compare.several_runs import trend
    from tfprobe.analysis.jobs.run_selection import jobs

    if not jobs(runs):
        raise NoAnswer("No run.json says which job these runs belong to.")
    job, *others = jobs(runs)
    rows = tuple(trend(_profiles(job[-(limit or _SHOWN_RUNS) :])))
    if as_json:
        common.show_json(_document(rows, len(others)))
        return
    from tfprobe.report.text.runs import render_trend

    width, colour = common.page_width(), common.page_colour()
    common.show_page(render_trend(rows, len(others), width=width, colour=colour))


def _profiles(runs: Sequence[RunLine]) -> Iterator[tuple[RunLine, Profile | Missing]]:
    from tfprobe.profile.reader.run_reader import load
    from tfprobe.runs.liveness import this_machine

    for run in runs:
        with common.progress(f"Reading captures of {run.id}") as watch:
            try:
                profile: Profile | Missing = load(
                    RunFolder(Path(run.directory)), this_machine(), with_memory=False, watch=watch
                )
            except TfprobeError as problem:
                profile = Missing(str(problem))
        yield run, profile


def _document(rows: Sequence[TrendRow], others: int) -> dict[str, Any]:
    """Return the tfprobe.trend/1 document. Any: a JSON document."""
    return {
        "schema": "tfprobe.trend/1",
        "runs": [_run(row) for row in rows],
        "other_jobs": others,
    }


def _run(row: TrendRow) -> dict[str, Any]:

    step_ns = row.step_p50_ns
    return {
        **document(row.run),
        "python": _ls_trend_known(row.python),
        "tensorflow": _ls_trend_known(row.tensorflow),
        "work": _ls_trend_known(row.loop),
        "step_p50_us": None if isinstance(step_ns, Missing) else step_ns / 1000,
        "goodput_ratio": _ls_trend_known(row.goodput_ratio),
        "change": _change(row),
    }


def _change(row: TrendRow) -> dict[str, Any]:
    change = row.change
    if isinstance(change, Missing):
        return {"missing": change.reason}
    cause = change.cause
    return {
        "measure": change.measure,
        "ratio": change.ratio,
        "significant": change.is_significant,
        "cause": None if isinstance(cause, Missing) else cause.kind.value,
        "why": None if isinstance(cause, Missing) else cause.why,
    }


def _ls_trend_known(value: Any) -> Any:
    return None if isinstance(value, Missing) else value
