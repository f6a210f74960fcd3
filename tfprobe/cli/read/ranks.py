"""`tfprobe ranks`: compare the processes of a job: which are slow, and which wait for which."""

from __future__ import annotations

import re

import click

from tfprobe.cli import common
from tfprobe.cli.common import Workers, workers_options
from tfprobe.errors import Missing, NoAnswer, UsageError

_STEPS = re.compile(r"(?P<first>\d{1,18})(?:-(?P<last>\d{1,18}))?\Z", re.ASCII)


@click.command("ranks")
@common.loop_option
@click.option("--steps", metavar="A-B", help="Show only steps A to B, or step A.")
@workers_options
@common.run_argument
def command(
    run: str,
    output: str | None,
    as_json: bool,
    loop: str,
    steps: str | None,
    workers: int | None,
    dask: str | None,
) -> int:
    """Compare the processes of a job: which are slow, and which wait for which.

    RUN is a directory, a run id, or `latest`, the default. The answer also has the clock offsets
    of the machines, the processes that are missing, and the load of parameter servers.
    """
    chosen = _chosen(steps)
    folder = common.chosen_run(run, output)
    choose = Workers(workers, dask).on(folder)
    with common.progress("Reading captures") as watch:
        from tfprobe.query.queries import compare_ranks
        from tfprobe.runs.liveness import this_machine

        found = compare_ranks(folder, this_machine(), choose, named=loop, steps=chosen, watch=watch)
    across = found.across
    if as_json:
        from tfprobe.report.documents.document import published
        from tfprobe.report.documents.rank_report import ranks_document

        common.show_json(published(ranks_document(across, folder.id, found.problems)))
    if not across.rows:
        hint = " ".join(f"{problem.where}: {problem.what}" for problem in found.problems)
        raise NoAnswer(f"Run {folder.id} has no processes yet.", hint=hint)
    if loop and isinstance(across.loop, Missing):
        raise NoAnswer(
            f"Run {folder.id}: {across.loop.reason}.", hint="`tfprobe steps` lists the loops."
        )
    if not as_json:
        from tfprobe.report.text.ranks import render_ranks

        text = render_ranks(
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
    match = _STEPS.match(steps)
    first = int(match["first"]) if match else 0
    last = int(match["last"] or first) if match else -1
    if last < first:
        raise UsageError(
            f"--steps {steps!r} is not a range of steps.", hint="Use A-B, as in --steps 100-200."
        )
    return first, last
