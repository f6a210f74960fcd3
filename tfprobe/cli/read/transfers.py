"""`tfprobe transfers`: what moves over the bus and between ranks, and what of it costs time."""

from __future__ import annotations

from typing import Any

import click

from tfprobe.analysis.core.source_lines import BYS, By
from tfprobe.cli import common
from tfprobe.errors import Missing, NoAnswer


@click.command("transfers")
@common.loop_option
@common.rank_option
@click.option(
    "--by",
    type=click.Choice(BYS),
    default="op",
    show_default=True,
    metavar="KEY",
    help=f"Group copies by {', '.join(BYS[:-1])} or {BYS[-1]}.",
)
@common.run_argument
def command(
    run: str, output: str | None, as_json: bool, loop: str, rank: int | None, by: By
) -> int:
    """Show what a step moves over the bus, between devices and between ranks.

    RUN is a directory, a run id, or `latest`, the default; or a file that `tfprobe op` reads. The
    answer is about one loop, in all processes that ran it.
    """
    from tfprobe.analysis.core.source_lines import Origins
    from tfprobe.analysis.distributed.transfer_report import report_transfers
    from tfprobe.cli import loop_selection

    found = loop_selection.read(run, output, loop=loop, rank=rank)
    origins = Origins(found.sampled)
    moves = report_transfers(found.profile, found.sampled, origins, by)
    if as_json:
        from tfprobe.report.documents.document import published
        from tfprobe.report.documents.transfers_document import transfers_document

        head: dict[str, Any] = {"schema": "tfprobe.transfers/1", "run": found.source, "by": by}
        common.show_json(published(head | transfers_document(moves)))
    if isinstance(moves.transfers, Missing) and moves.has_nothing:
        raise NoAnswer(f"{found.source}: {moves.transfers.reason}.")
    if not as_json:
        from tfprobe.report.text.transfers import render_transfers

        common.show_page(
            render_transfers(moves, by, width=common.page_width(), colour=common.page_colour())
        )
    return 0
