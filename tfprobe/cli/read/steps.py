"""`tfprobe steps`: the phases of a run, how long its steps took, and which of them stand out."""

from __future__ import annotations

import click

from tfprobe.cli import common
from tfprobe.errors import NoAnswer

# In text, the latest steps matter less than those that stand out.
_LAST_ON_PAGE = 3
_LAST_IN_JSON = 20


@click.command("steps")
@common.rank_option
@common.loop_filter_option
@click.option(
    "--last",
    type=click.IntRange(min=0),
    metavar="N",
    help="Also show the last N steps of each loop, of which 8,192 are kept.  "
    f"[default: {_LAST_ON_PAGE}, with --json {_LAST_IN_JSON}]",
)
@common.run_argument
def command(
    run: str, output: str | None, as_json: bool, rank: int | None, loop: str, last: int | None
) -> int:
    """Show the phases of a run, how long its steps took, and which of them stand out.

    RUN is a directory, a run id, or `latest`, the default.
    """
    from tfprobe.analysis.core import no_data_reasons
    from tfprobe.profile.reader.run_reader import load
    from tfprobe.report.documents.document import published
    from tfprobe.report.documents.step_report import gather_steps, steps_document
    from tfprobe.runs.liveness import this_machine

    folder = common.chosen_run(run, output)
    profile = load(folder, this_machine(), rank=rank, with_captures=False)
    shown = (_LAST_IN_JSON if as_json else _LAST_ON_PAGE) if last is None else last
    report = gather_steps(profile, last=shown, named=loop)
    if as_json:
        common.show_json(published(steps_document(report)))
    if profile.loops and not report.loops:
        raise common.no_such_loop(loop, (f"{named.kind} {named.name}" for named in profile.loops))
    if not report.loops:
        raise NoAnswer(
            f"Run {folder.id} has no steps.", hint=" ".join(no_data_reasons.explain(profile))
        )
    if not as_json:
        from tfprobe.report.text.steps import render_steps

        text = render_steps(report, width=common.page_width(), colour=common.page_colour())
        common.show_page(text)
    return 0
