"""`tfprobe input`: why steps wait for input."""

from __future__ import annotations

import math

import click

from tfprobe.cli import common
from tfprobe.errors import NoAnswer, UsageError

_PERCENT = click.FloatRange(min=0, max=100)


@click.command("input")
@common.rank_option
@common.loop_filter_option
@click.option(
    "--high",
    type=_PERCENT,
    default=20,
    show_default=True,
    metavar="PCT",
    help="Call a loop highly input bound from this share of its time.",
)
@click.option(
    "--moderate",
    type=_PERCENT,
    default=5,
    show_default=True,
    metavar="PCT",
    help="Call a loop moderately input bound from this share of its time.",
)
@common.run_argument
def command(
    run: str,
    output: str | None,
    as_json: bool,
    rank: int | None,
    loop: str,
    high: float,
    moderate: float,
) -> int:
    """Show why steps wait for input: which stage of tf.data, queue, feed or Python code.

    RUN is a directory, a run id, or `latest`, the default; or a file that `tfprobe op` reads.
    """
    from tfprobe.analysis.core import no_data_reasons
    from tfprobe.analysis.input.input_verdict import InputThresholds, judge
    from tfprobe.report.documents.document import published
    from tfprobe.report.documents.input_document import loop_document
    from tfprobe.report.documents.run_report import run_document

    _check_limits(high, moderate)
    source, profile = common.whole(run, output, rank=rank)
    limits = InputThresholds(high_ratio=high / 100, moderate_ratio=moderate / 100)
    judged = judge(profile, limits)
    loops = [loop_input for loop_input in judged if loop in loop_input.title]
    if as_json:
        head = {"schema": "tfprobe.input/1", "run": run_document(profile.run)}
        documents = [loop_document(loop_input, profile.processes) for loop_input in loops]
        common.show_json(published(head | {"works": documents}))
    common.warn_of_problems(profile)
    if judged and not loops:
        raise common.no_such_loop(loop, (loop_input.title for loop_input in judged))
    if not loops:
        why = " ".join(no_data_reasons.explain(profile)) or "No step was traced."
        raise NoAnswer(f"{source} has no input data.", hint=why)
    if not as_json:
        from tfprobe.report.text.input import render_input

        width, colour = common.page_width(), common.page_colour()
        common.show_page(render_input(loops, profile.processes, width=width, colour=colour))
    return 0


def _check_limits(high: float, moderate: float) -> None:
    """Raise UsageError for limits in the wrong order, and NaN, which click accepts."""
    if not (math.isfinite(high) and math.isfinite(moderate)):
        raise UsageError(
            "--high and --moderate must be percentages.", hint="Use a number, as in --high 20."
        )
    if moderate > high:
        raise UsageError(
            f"--moderate {moderate:g} is above --high {high:g}.",
            hint="Set both, --moderate to the lower one.",
        )
