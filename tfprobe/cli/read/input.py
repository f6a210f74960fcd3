"""`tfprobe input`: why steps wait for input."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from tfprobe.cli import common
from tfprobe.errors import NoAnswer, UsageError

if TYPE_CHECKING:
    from tfprobe.analysis.input.input_verdict import LoopInput

_PERCENT = click.FloatRange(min=0, max=100)


@click.command("input")
@common.run_argument
@click.option("--rank", type=int, metavar="R", help="Only the processes of this rank.")
@click.option(
    "--loop", "wanted", default="", metavar="TEXT", help="Only loops with TEXT in kind and name."
)
@click.option(
    "--high",
    type=_PERCENT,
    default=20,
    show_default=True,
    metavar="PCT",
    help="Highly input bound from this share of the time on.",
)
@click.option(
    "--moderate",
    type=_PERCENT,
    default=5,
    show_default=True,
    metavar="PCT",
    help="Moderately input bound from this share on.",
)
def command(
    run: str,
    output: str | None,
    as_json: bool,
    rank: int | None,
    wanted: str,
    high: float,
    moderate: float,
) -> int:
    """Show why steps wait for input: which stage of tf.data, queue, feed or Python code.

    RUN is a directory, a run id, or `latest`, the default; or a file from elsewhere.
    """
    from tfprobe.analysis.core import no_data_reasons
    from tfprobe.analysis.input.input_verdict import InputThresholds, judge
    from tfprobe.report.documents.input_document import loop_document
    from tfprobe.report.documents.run_report import run_document

    _check_limits(high, moderate)
    source, profile = common.whole(run, output, rank=rank)
    limits = InputThresholds(high_ratio=high / 100, moderate_ratio=moderate / 100)
    judged = judge(profile, limits)
    loops = [each for each in judged if wanted in each.title]
    if as_json:
        head = {"schema": "tfprobe.input/1", "run": run_document(profile.run)}
        documents = [loop_document(loop, profile.processes) for loop in loops]
        common.show_json(head | {"works": documents})
    common.warn_of_problems(profile)
    if judged and not loops:
        raise NoAnswer(f"No work has {wanted!r} in its name.", hint=f"There are: {_names(judged)}.")
    if not loops:
        why = " ".join(no_data_reasons.explain(profile)) or "No step of it was sampled."
        raise NoAnswer(f"{source} does not tell of its input.", hint=why)
    if not as_json:
        from tfprobe.report.text.input import lay_out

        width, colour = common.page_width(), common.page_colour()
        common.show_page(lay_out(loops, profile.processes, width=width, colour=colour))
    return 0


def _check_limits(high: float, moderate: float) -> None:
    """Raise UsageError for limits that order nothing; click lets NaN pass as any percentage."""
    if not (math.isfinite(high) and math.isfinite(moderate)):
        raise UsageError("--high and --moderate are percentages.", hint="As in --high 20.")
    if moderate > high:
        raise UsageError(
            f"--moderate {moderate:g} is above --high {high:g}.",
            hint="Give both, the lower one to --moderate.",
        )


def _names(loops: Sequence[LoopInput]) -> str:
    return ", ".join(sorted({loop.title for loop in loops})[:10])
