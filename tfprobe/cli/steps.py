"""`tfprobe steps`: what each work's steps took, and the latest of them one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tfprobe.cli import reading
from tfprobe.errors import NoAnswer

if TYPE_CHECKING:
    from tfprobe.views.steps import RecentStep

DEFAULT_LAST = 20


@click.command("steps")
@reading.run_argument
@click.option("--rank", type=int, metavar="R", help="Only the processes of this rank.")
@click.option(
    "--last",
    type=click.IntRange(min=0),
    default=DEFAULT_LAST,
    show_default=True,
    metavar="N",
    help="Show the last N steps of each work; up to 8,192 are remembered.",
)
def command(run: str, output: str | None, as_json: bool, rank: int | None, last: int) -> int:
    """Show the steps of a run: each work, and its latest steps.

    RUN is a directory, a run id, or `latest`, the default.
    """
    from tfprobe.ingest.run import load
    from tfprobe.store.liveness import this_machine
    from tfprobe.views import report as report_view
    from tfprobe.views import silence
    from tfprobe.views.steps import recent_steps

    folder = reading.chosen_run(run, output)
    profile = load(folder, this_machine(), rank=rank, with_captures=False)
    report = report_view.gather(profile)
    items = [(process, item) for process in report.processes for item in process.works]
    if as_json:
        works: list[dict[str, Any]] = []  # Any: a JSON document
        for process, item in items:
            place = {"host": process.process.host, "pid": process.process.pid}
            recent = [_step_document(step) for step in recent_steps(item.work, last=last)]
            works.append(place | report_view.work_document(item) | {"recent": recent})
        head = {"schema": "tfprobe.steps/1", "run": report_view.run_document(report.run)}
        reading.show_json(head | {"work": works})
    if not items:
        raise NoAnswer(f"Run {folder.id} has no steps.", hint=" ".join(silence.explain(profile)))
    if not as_json:
        from tfprobe.terminal.steps import lay_out

        shown = [(item, recent_steps(item.work, last=last)) for _, item in items]
        reading.show(lay_out(shown, width=reading.page_width(), colour=reading.page_colour()))
    return 0


def _step_document(step: RecentStep) -> dict[str, Any]:
    return {
        "step": step.step,
        "start_us": step.start_ns / 1000,
        "duration_us": step.duration_ns / 1000,
        "gap_us": None if step.gap_ns is None else step.gap_ns / 1000,
        "sampled": step.sampled,
        "raised": step.raised,
    }
