"""`tfprobe diff`: what changed from one recording to another, and whether that is chance."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tfprobe.cli import reading
from tfprobe.errors import Missing, NoAnswer, UsageError

if TYPE_CHECKING:
    from tfprobe.model.profile import Profile
    from tfprobe.views.diff.gate import Verdict
    from tfprobe.views.diff.whole import Diff

_FAILED = 1
_STEPS, _MEMORY, _OP = "steps", "memory", "op"


@click.command("diff")
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@click.option("-o", "--output", metavar="DIR", help="Directory of all runs, as for `run`.")
@click.option("--rank", type=int, metavar="R", help="Only the processes of this rank.")
@click.option("--json", "as_json", is_flag=True, help="Print one document.")
@click.option("--md", "markdown", metavar="FILE", help="Write Markdown to FILE instead.")
@click.option(
    "--fail-over",
    "percent",
    type=click.FloatRange(min=0),
    metavar="PCT",
    help="End with status 1 where B is significantly worse than A by more than PCT percent.",
)
@click.option(
    "--on",
    "watched",
    type=click.Choice([_STEPS, _MEMORY, _OP]),
    multiple=True,
    help="What --fail-over looks at; may be given several times.  [default: steps]",
)
def command(
    a: str,
    b: str,
    output: str | None,
    rank: int | None,
    as_json: bool,
    markdown: str | None,
    percent: float | None,
    watched: tuple[str, ...],
) -> int:
    """Show what changed from recording A to recording B, and whether that is more than chance.

    A and B are directories, run ids, `latest`, or files as `tfprobe op` takes them. The status is 1
    when they have no kind of step in common, or when --fail-over says so.
    """
    from tfprobe.views.diff.whole import diff

    if percent is not None and not math.isfinite(percent):
        raise UsageError(f"--fail-over {percent} is no percentage.")
    if watched and percent is None:
        raise UsageError("--on is for --fail-over: it says what that looks at.")
    found = diff(_profile(a, output, rank), _profile(b, output, rank))
    if isinstance(found, Missing):
        raise NoAnswer(f"{a} and {b} cannot be compared: {found.reason}.")
    verdicts = [] if percent is None else _verdicts(found, watched or (_STEPS,), percent)
    if as_json:
        from tfprobe.views.diff.documents import document

        reading.show_json(document(found, verdicts))
    if markdown is not None:
        from tfprobe.terminal.diff_markdown import lay_out as lay_out_markdown

        reading.write_file(markdown, lay_out_markdown(found, verdicts))
    if not as_json and markdown is None:
        from tfprobe.terminal.diff import lay_out

        width, colour = reading.page_width(), reading.page_colour()
        reading.show_page(lay_out(found, verdicts, width=width, colour=colour))
    return _FAILED if any(verdict.fails for _, verdict in verdicts) else 0


def _profile(name: str, output: str | None, rank: int | None) -> Profile:
    """Return the recording that a name means: a file, or a run."""
    from tfprobe.ingest.file import file_profile
    from tfprobe.ingest.run import load
    from tfprobe.store.liveness import this_machine

    if Path(name).exists() and not Path(name).is_dir():
        if rank is not None:
            raise UsageError("A file holds one work: --rank is for runs.")
        with reading.progress(f"Reading {name}"):
            return file_profile(Path(name))
    folder = reading.chosen_run(name, output)
    with reading.progress(f"Reading captures of {folder.id}") as watch:
        return load(folder, this_machine(), rank=rank, watch=watch)


def _verdicts(found: Diff, watched: tuple[str, ...], percent: float) -> list[tuple[str, Verdict]]:
    from tfprobe.views.diff.gate import judge

    return [(on, judge(found, on=on, allowed_ratio=percent / 100)) for on in dict.fromkeys(watched)]
