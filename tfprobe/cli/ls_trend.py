"""`tfprobe ls --trend`: the runs of one job over time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tfprobe.analysis.compare.run_trend import TrendRow, trend
from tfprobe.analysis.jobs.history import jobs
from tfprobe.cli import reading
from tfprobe.errors import Missing, NoAnswer, TfprobeError
from tfprobe.profile.profile import Profile
from tfprobe.profile.reader.run_reader import load
from tfprobe.profile.snapshots import RunLine
from tfprobe.runs.layout import RunFolder
from tfprobe.runs.liveness import this_machine

# Captures of each are read, and more do not fit on a screen.
_SHOWN_RUNS = 20


def show(runs: Sequence[RunLine], *, limit: int | None, as_json: bool) -> None:
    """Show the job that ran last, its newest runs, the oldest first."""
    if not jobs(runs):
        raise NoAnswer("No run.json says which job these runs are of.")
    job, *others = jobs(runs)
    rows = tuple(trend(_profiles(job[-(limit or _SHOWN_RUNS) :])))
    if as_json:
        reading.show_json(_document(rows, len(others)))
        return
    from tfprobe.report.text.run_trend import lay_out

    width, colour = reading.page_width(), reading.page_colour()
    reading.show_page(lay_out(rows, len(others), width=width, colour=colour))


def _profiles(runs: Sequence[RunLine]) -> Iterator[tuple[RunLine, Profile | Missing]]:
    for run in runs:
        with reading.progress(f"Reading captures of {run.id}") as watch:
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
    from tfprobe.cli.ls import document

    step_ns = row.step_p50_ns
    return {
        **document(row.run),
        "python": _known(row.python),
        "tensorflow": _known(row.tensorflow),
        "work": _known(row.work),
        "step_p50_us": None if isinstance(step_ns, Missing) else step_ns / 1000,
        "goodput_ratio": _known(row.goodput_ratio),
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
        "cause": None if isinstance(cause, Missing) else cause.whose.value,
        "why": None if isinstance(cause, Missing) else cause.why,
    }


def _known(value: Any) -> Any:
    return None if isinstance(value, Missing) else value
