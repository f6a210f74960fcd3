"""`tfprobe breakdown`: what a step spends before, on and after the accelerator."""

from __future__ import annotations

from typing import Any

import click

from tfprobe.cli import common
from tfprobe.errors import Missing, NoAnswer


@click.command("breakdown")
@common.rank_option
@click.option("--steps", "each_step", is_flag=True, help="Also show each traced step.")
@common.run_argument
def command(run: str, output: str | None, as_json: bool, rank: int | None, each_step: bool) -> int:
    """Show the time of a step before, on and after the accelerator, and what it waits for.

    RUN is a directory, a run id, or `latest`, the default; or a file that `tfprobe op` reads, or a
    trace of PyTorch's profiler. The parts are exclusive, and add up to the time from the start of
    a traced step to the start of the next.
    """
    from tfprobe.analysis.breakdown.cycles import mean_cycle, merge_cycles, parts_by_loop
    from tfprobe.report.documents.breakdown_document import loop_document, shares_document
    from tfprobe.report.documents.document import published
    from tfprobe.report.documents.run_report import run_document

    source, profile = common.whole(run, output, rank=rank)
    loops = parts_by_loop(profile)
    item = merge_cycles(map(mean_cycle, loops), len(profile.captures))
    if as_json:
        document: dict[str, Any] = {
            "schema": "tfprobe.breakdown/1",
            "run": run_document(profile.run),
        }
        document["breakdown"] = shares_document(item)
        document["works"] = [
            loop_document(loop, profile.processes, steps=each_step)
            for loop in (() if isinstance(item, Missing) else loops)
        ]
        common.show_json(published(document))
    common.warn_of_problems(profile)
    if isinstance(item, Missing):
        hint = "`tfprobe report` shows what is known about it."
        raise NoAnswer(f"{source} has no breakdown: {item.reason}.", hint=hint)
    if not as_json:
        from tfprobe.report.text.breakdown import render_breakdown

        width, colour = common.page_width(), common.page_colour()
        processes = profile.processes
        common.show_page(
            render_breakdown(loops, processes, width=width, colour=colour, each_step=each_step)
        )
    return 0
