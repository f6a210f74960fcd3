"""`tfprobe ranks`: the processes of a job beside each other, who is slow and who waits for whom."""

from __future__ import annotations

import re

import click

from tfprobe.cli import common
from tfprobe.cli.common import Workers, workers_options
from tfprobe.errors import Missing, NoAnswer, UsageError

_STEPS = re.compile(r"(?P<first>\d{1,18})(?:-(?P<last>\d{1,18}))?\Z", re.ASCII)


@click.command("ranks")
@common.run_argument
@click.option("--loop", default="", metavar="TEXT", help="The loop with TEXT in its kind and name.")
@click.option("--steps", metavar="A-B", help="Only steps A to B, or one step.")
@workers_options
def command(
    run: str,
    output: str | None,
    as_json: bool,
    loop: str,
    steps: str | None,
    workers: int | None,
    dask: str | None,
) -> int:
    """Show the processes of a job beside each other: who is slow, who waits for whom.

    RUN is a directory, a run id, or `latest`, the default. Tells also how the clocks of its
    machines differ, who is missing, and what parameter servers do. Without --loop it is the loop
    with most time.
    """
    chosen = _chosen(steps)
    folder = common.chosen_run(run, output)
    choose = Workers(workers, dask).on(folder)
    with common.progress("Reading captures") as watch:
        from tfprobe.query.queries import beside
        from tfprobe.runs.liveness import this_machine

        found = beside(folder, this_machine(), choose, named=loop, steps=chosen, watch=watch)
    across = found.across
    if as_json:
        from tfprobe.report.documents.rank_report import document

        common.show_json(document(across, folder.id, found.problems))
    if not across.rows:
        hint = " ".join(f"{problem.where}: {problem.what}" for problem in found.problems)
        raise NoAnswer(f"Run {folder.id} has no process yet.", hint=hint)
    if loop and isinstance(across.loop, Missing):
        raise NoAnswer(
            f"Run {folder.id}: {across.loop.reason}.", hint="`tfprobe steps` lists the works."
        )
    if not as_json:
        from tfprobe.report.text.ranks import lay_out

        text = lay_out(
            across,
            f"Run {folder.id}",
            found.problems,
            width=common.page_width(),
            colour=common.page_colour(),
        )
        common.show_page(text)
    return 0


def _chosen(steps: str | None) -> tuple[int, int] | None:
    if steps is None:
        return None
    found = _STEPS.match(steps)
    first = int(found["first"]) if found else 0
    last = int(found["last"] or first) if found else -1
    if last < first:
        raise UsageError(f"--steps {steps!r} is no range of steps.", hint="As in --steps 100-200.")
    return first, last
