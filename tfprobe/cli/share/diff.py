"""`tfprobe diff`: what changed from one recording to another, and whether that is chance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tfprobe.analysis.compare.gate import GateVerdict, judge_runs
from tfprobe.analysis.compare.sides import RunLevels, levels, sides
from tfprobe.cli import common
from tfprobe.errors import Missing, NoAnswer, UsageError
from tfprobe.profile.reader.file import file_profile
from tfprobe.profile.reader.run_reader import load
from tfprobe.runs.liveness import this_machine

if TYPE_CHECKING:
    from tfprobe.analysis.compare.gate import GateVerdict
    from tfprobe.profile.profile import Profile


_FAILED = 1
_STEPS, _MEMORY, _OP = "steps", "memory", "op"
# Stands for `--` among the operands; no recording can be called so.
_BETWEEN = "\0"


class _Sides(click.Command):
    """A command whose operands are two sides with `--` between, and options anywhere."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep `--`, which click takes for the end of options and drops."""
        return super().parse_args(ctx, [_BETWEEN if word == "--" else word for word in args])


@dataclass(frozen=True, slots=True)
class Gate:
    """What makes a build fail; `percent` is None without --fail-over."""

    percent: float | None
    strict: bool
    watched: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RunPlaces:
    """Where recordings are looked for, and where the answer goes."""

    output: str | None
    rank: int | None
    as_json: bool
    markdown: str | None


@click.command("diff", cls=_Sides, options_metavar="[OPTIONS] A... -- B... | A B")
@click.argument("runs", nargs=-1, metavar="")
@common.rank_option
@common.markdown_option
@click.option(
    "--history",
    metavar="RUN",
    help="Compare RUN with earlier runs of the same name or command.",
)
@click.option(
    "--last",
    type=click.IntRange(min=1),
    default=8,
    metavar="N",
    help="With --history, use the newest N of them.  [default: 8]",
)
@click.option(
    "--fail-over",
    "percent",
    type=click.FloatRange(min=0),
    metavar="PCT",
    help="Exit with status 1 if the program is significantly slower in B, by over PCT percent.",
)
@click.option(
    "--strict",
    is_flag=True,
    help="Make --fail-over fail even if the machine may be the cause.",
)
@click.option(
    "--on",
    "watched",
    type=click.Choice([_STEPS, _MEMORY, _OP]),
    multiple=True,
    help="Choose what --fail-over checks; may be repeated.  [default: steps]",
)
@common.output_option
@common.json_option
def command(
    runs: tuple[str, ...],
    output: str | None,
    rank: int | None,
    as_json: bool,
    markdown: str | None,
    history: str | None,
    last: int,
    percent: float | None,
    strict: bool,
    watched: tuple[str, ...],
) -> int:
    """Show what changed from recording A to recording B, and whether that is more than chance.

    A and B are directories, run ids, `latest`, or files that `tfprobe op` reads. Several on each
    side, as in `A1 A2 A3 -- B1 B2 B3`, show whether a change exceeds the scatter between runs. The
    exit status is 1 if they have no kind of step in common, or if a check of --fail-over fails.
    """
    gate = Gate(percent, strict, watched or (_STEPS,))
    _check(gate, watched)
    places = RunPlaces(output, rank, as_json, markdown)
    before, after = _sides_of(runs, history, last, places)
    if len(before) == len(after) == 1:
        verdicts = _compare_pair(before[0], after[0], places, gate)
    else:
        verdicts = compare_sides(before, after, places, gate)
    return _FAILED if any(verdict.fails for _, verdict in verdicts) else 0


def _check(gate: Gate, watched: tuple[str, ...]) -> None:
    if gate.percent is not None and not math.isfinite(gate.percent):
        raise UsageError(f"--fail-over {gate.percent} is not a percentage.")
    if watched and gate.percent is None:
        raise UsageError("--on requires --fail-over.")
    if gate.strict and gate.percent is None:
        raise UsageError("--strict requires --fail-over.")


def _sides_of(
    runs: tuple[str, ...], history: str | None, last: int, places: RunPlaces
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of both sides. Raises UsageError where they are none."""
    if history is not None:
        if runs:
            raise UsageError("--history cannot be combined with other runs: it finds them itself.")

        return earlier(history, places.output, last), (history,)
    hint = "Use `tfprobe diff A B`, or `tfprobe diff A1 A2 A3 -- B1 B2 B3`."
    if _BETWEEN in runs:
        at = runs.index(_BETWEEN)
        before, after = tuple(runs[:at]), tuple(runs[at + 1 :])
        if not before or not after or _BETWEEN in after:
            raise UsageError("Each side of `--` needs a recording.", hint=hint)
        return before, after
    if len(runs) != 2:
        count = f"{len(runs)} recordings were" if len(runs) != 1 else "one recording was"
        raise UsageError(f"A comparison needs two sides, but {count} given.", hint=hint)
    return runs[:1], runs[1:]


def _compare_pair(a: str, b: str, places: RunPlaces, gate: Gate) -> list[tuple[str, GateVerdict]]:
    """Compare two recordings, and show the answer; return what the gate says."""
    from tfprobe.analysis.compare.comparison import diff
    from tfprobe.analysis.compare.gate import judge

    profiles = [recording(name, places) for name in (a, b)]
    comparison = diff(*profiles)
    if isinstance(comparison, Missing):
        raise NoAnswer(f"{a} and {b} cannot be compared: {comparison.reason}.")
    verdicts = [
        (on, judge(comparison, on=on, allowed_ratio=gate.percent / 100, strict=gate.strict))
        for on in dict.fromkeys(gate.watched)
        if gate.percent is not None
    ]
    if places.as_json:
        from tfprobe.report.documents.comparison_document import comparison_document
        from tfprobe.report.documents.document import published

        common.show_json(published(comparison_document(comparison, verdicts)))
    if places.markdown is not None:
        from tfprobe.report.diff.pair import render_diff_markdown

        common.write_file(places.markdown, render_diff_markdown(comparison, verdicts))
    if not places.as_json and places.markdown is None:
        from tfprobe.report.diff.pair import render_diff

        width, colour = common.page_width(), common.page_colour()
        common.show_page(render_diff(comparison, verdicts, width=width, colour=colour))
    return verdicts


_DIFF_RUNS_MEMORY = "memory"


def recording(name: str, places: RunPlaces) -> Profile:
    """Return the recording that a name means: a file, or a run."""
    if common.is_file(name):
        if places.rank is not None:
            raise UsageError(f"--rank applies to runs, and {name} is a file.")
        with common.progress(f"Reading {name}"):
            return file_profile(Path(name))
    folder = common.chosen_run(name, places.output)
    with common.progress(f"Reading captures of {folder.id}") as watch:
        return load(folder, this_machine(), rank=places.rank, watch=watch)


def earlier(run: str, output: str | None, last: int) -> tuple[str, ...]:
    """Return the runs of the same job before a run, in its directory of runs, oldest first.

    Raises NoAnswer where there is none.
    """
    from tfprobe.analysis.jobs.run_selection import earlier_runs
    from tfprobe.runs.catalogue import list_runs

    folder = common.chosen_run(run, output)
    lines = [entry.line for entry in list_runs(folder.root.parent, this_machine())]
    line = next((candidate for candidate in lines if candidate.id == folder.id), None)
    found = () if line is None else earlier_runs(line, lines)
    if not found:
        hint = "Runs of one job have the same name (`tfprobe run --name`), or the same command."
        raise NoAnswer(f"No earlier run of the same job as {folder.id} was found.", hint=hint)
    return tuple(each.directory for each in found[-last:])


def compare_sides(
    before: Sequence[str], after: Sequence[str], places: RunPlaces, gate: Gate
) -> list[tuple[str, GateVerdict]]:
    """Compare two sides of several runs, and show the answer; return what the gate says."""
    if gate.percent is not None and _DIFF_RUNS_MEMORY in gate.watched:
        hint = "Compare one run with one other run."
        raise UsageError("--on memory cannot compare several runs on a side.", hint=hint)
    reference = recording(before[0], places)
    first_after = recording(after[0], places)
    # Of each run only levels are kept: of a profile of each there might be no room.
    ones = [levels(reference, reference), *_levels(reference, before[1:], places)]
    others = [levels(reference, first_after), *_levels(reference, after[1:], places)]
    compared = sides(reference, first_after, ones, others)
    if isinstance(compared, Missing):
        raise NoAnswer(f"These recordings cannot be compared: {compared.reason}.")
    verdicts = [
        (on, judge_runs(compared, on=on, allowed_ratio=gate.percent / 100))
        for on in dict.fromkeys(gate.watched)
        if gate.percent is not None
    ]
    if places.as_json:
        from tfprobe.report.documents.comparison_document import several_runs_document
        from tfprobe.report.documents.document import published

        common.show_json(published(several_runs_document(compared, verdicts)))
    if places.markdown is not None:
        from tfprobe.report.diff.runs import render_sides_markdown

        common.write_file(places.markdown, render_sides_markdown(compared, verdicts))
    if not places.as_json and places.markdown is None:
        from tfprobe.report.diff.runs import render_sides

        width, colour = common.page_width(), common.page_colour()
        common.show_page(render_sides(compared, verdicts, width=width, colour=colour))
    return verdicts


def _levels(reference: Profile, names: Sequence[str], places: RunPlaces) -> list[RunLevels]:
    return [levels(reference, recording(name, places)) for name in names]
