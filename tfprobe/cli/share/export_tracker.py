"""Add the report of a run to the run of MLflow or W&B that the job had: `tfprobe export --to`."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tfprobe.cli import common
from tfprobe.errors import NoAnswer, UsageError
from tfprobe.launch import environ
from tfprobe.printable import printable

if TYPE_CHECKING:
    from tfprobe.export.trackers import TrackedRun
    from tfprobe.report.documents.document import Document
    from tfprobe.runs.layout import RunFolder

KINDS = ("mlflow", "wandb")


def add_report(
    run: str, output: str | None, kind: str, *, run_id: str | None, rank: int | None
) -> int:
    """Add pages, JSON document and key numbers; print where they are, and return the status.

    Raises UsageError where no run is known or the tracker refuses, NoAnswer without steps.
    """
    from tfprobe.export.key_numbers import key_numbers
    from tfprobe.export.trackers import QUIET, TRACKERS, TrackedReport

    if common.is_file(run):
        raise UsageError(f"--to {kind} applies to runs, and {run} is a file.")
    folder = common.chosen_run(run, output)
    tracked = _tracked_run(folder, kind, run_id)
    page, document = _rendered(folder, rank)
    if not any(process["work"] for process in document["processes"]):
        raise NoAnswer(f"Run {folder.id} has no steps.", hint="`tfprobe report` says why.")
    add, _ = TRACKERS[kind]
    environ.set_defaults(QUIET)
    with tempfile.TemporaryDirectory() as place:
        files = Path(place, "report.html"), Path(place, "report.json")
        files[0].write_text(page, encoding="utf-8", errors="replace")
        files[1].write_text(json.dumps(document, indent=2, allow_nan=False) + "\n")
        metrics = key_numbers(document)
        where = add(tracked, TrackedReport(files, metrics, folder.id))
    names = ", ".join(file.name for file in files)
    common.show(f"{printable(where)}\n{names} and {len(metrics)} metrics\n")
    return 0


def _tracked_run(folder: RunFolder, kind: str, run_id: str | None) -> TrackedRun:
    """Return the run of the tracker: the one that is named, or that of the job."""
    from tfprobe.export.trackers import TRACKERS, VARIABLES, TrackedRun
    from tfprobe.runs.manifests import read_run

    manifest = read_run(folder.manifest)
    recorded = manifest.environment
    _, variable = TRACKERS[kind]
    chosen = run_id or recorded.get(variable)
    if not chosen:
        raise UsageError(
            f"The job of run {folder.id} had no {variable} in its environment.",
            hint="Name the run to add the report to with --run-id.",
        )
    known = {**recorded, **environ.inherited()}
    variables = {name: known[name] for name in VARIABLES if known.get(name)}
    directory = Path(manifest.cwd)
    if not directory.is_dir():
        directory = Path(environ.working_directory())  # the run was recorded elsewhere
    return TrackedRun(chosen, variables, directory)


def _rendered(folder: RunFolder, rank: int | None) -> tuple[str, Document]:
    """Return all pages in one HTML file, and the document of `tfprobe report --json`."""
    from tfprobe.findings.engine import advise
    from tfprobe.findings.trials import with_measured
    from tfprobe.profile.reader.traced_steps import costliest_loop
    from tfprobe.report.documents.document import published
    from tfprobe.report.documents.run_report import gather_report, report_document
    from tfprobe.runs.liveness import this_machine
    from tfprobe.runs.trials import trials_of
    from tfprobe.web.html_export import page
    from tfprobe.web.opened import OpenRun

    opened = OpenRun(folder, this_machine(), rank=rank)
    with common.progress("Reading captures") as watch:
        profile = opened.refresh(watch)
    trials = trials_of(profile.run.command, folder.root.parent)
    advice = with_measured(advise(profile, costliest_loop(folder, profile)), trials)
    document = published(report_document(gather_report(profile), advice))
    with common.progress("Making pages") as watch:
        return page(opened, watch=watch), document
