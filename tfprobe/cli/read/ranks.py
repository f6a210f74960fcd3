"""`tfprobe ranks`: compare the processes of a job: which are slow, and which wait for which."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tfprobe.cli import common
from tfprobe.cli.common import Workers, workers_options
from tfprobe.errors import Missing, NoAnswer, UsageError
from tfprobe.runs.layout import LATEST

if TYPE_CHECKING:
    from tfprobe.query.queries import ProcessParts

_STEPS = re.compile(r"(?P<first>\d{1,18})(?:-(?P<last>\d{1,18}))?\Z", re.ASCII)


@click.command("ranks")
@common.loop_option
@click.option("--steps", metavar="A-B", help="Show only steps A to B, or step A.")
@workers_options
@click.argument("runs", nargs=-1, metavar="[RUN | FILE...]")
@common.output_option
@common.json_option
def command(
    runs: tuple[str, ...],
    output: str | None,
    as_json: bool,
    loop: str,
    steps: str | None,
    workers: int | None,
    dask: str | None,
) -> int:
    """Compare the processes of a job: which are slow, and which wait for which.

    RUN is a directory, a run id, or `latest`, the default. FILE is a trace of one rank by PyTorch's
    profiler; a directory of such traces stands for all of them. The answer also has the clock
    offsets of the machines, the processes that are missing, and the load of parameter servers.
    """
    chosen = _chosen(steps)
    files = _files(runs)
    if files:
        named, found = _of_files(runs, files, loop, chosen)
    else:
        folder = common.chosen_run(runs[0] if runs else LATEST, output)
        named = f"Run {folder.id}"
        choose = Workers(workers, dask).on(folder)
        with common.progress("Reading captures") as watch:
            from tfprobe.query.queries import compare_ranks
            from tfprobe.runs.liveness import this_machine

            here = this_machine()
            found = compare_ranks(folder, here, choose, named=loop, steps=chosen, watch=watch)
    across = found.across
    if as_json:
        from tfprobe.report.documents.document import published
        from tfprobe.report.documents.rank_report import ranks_document

        common.show_json(
            published(ranks_document(across, named.removeprefix("Run "), found.problems))
        )
    if not across.rows:
        hint = " ".join(f"{problem.where}: {problem.what}" for problem in found.problems)
        raise NoAnswer(f"{named} has no processes yet.", hint=hint)
    if loop and isinstance(across.loop, Missing):
        raise NoAnswer(f"{named}: {across.loop.reason}.", hint="`tfprobe steps` lists the loops.")
    if not as_json:
        from tfprobe.report.text.ranks import render_ranks

        text = render_ranks(
            across,
            named,
            found.problems,
            width=common.page_width(),
            colour=common.page_colour(),
        )
        common.show_page(text)
    return 0


def _files(runs: Sequence[str]) -> tuple[Path, ...]:
    """Return the files that are meant, those of a directory of traces included; none for a run.

    Raises UsageError for several runs.
    """
    if len(runs) == 1 and Path(runs[0]).is_dir():
        from tfprobe.profile.reader.rank_files import trace_files
        from tfprobe.runs.layout import RunFolder

        return () if RunFolder(Path(runs[0])).is_run() else trace_files(Path(runs[0]))
    files = tuple(Path(run) for run in runs if common.is_file(run))
    if len(runs) > 1 and len(files) < len(runs):
        raise UsageError("Only one run can be compared, or the files of several ranks.")
    return files


def _of_files(
    runs: Sequence[str], files: Sequence[Path], loop: str, steps: tuple[int, int] | None
) -> tuple[str, ProcessParts]:
    """Return what to call the files of ranks, and their comparison."""
    with common.progress("Reading traces") as watch:
        from tfprobe.profile.reader.rank_files import rank_profiles
        from tfprobe.query.queries import compare_profiles

        profiles, problems = rank_profiles(files, watch)
        found = compare_profiles(profiles, problems, named=loop, steps=steps)
    return runs[0] if len(runs) == 1 else f"{len(files)} files", found


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
