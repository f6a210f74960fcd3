"""Read the recordings that `tfprobe diff` compares, and compare several a side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tfprobe.analysis.compare.gate import Verdict, judge_runs
from tfprobe.analysis.compare.sides import RunLevels, levels, sides
from tfprobe.cli import reading
from tfprobe.errors import Missing, NoAnswer, UsageError
from tfprobe.profile.reader.file import file_profile
from tfprobe.profile.reader.run_reader import load
from tfprobe.runs.liveness import this_machine

if TYPE_CHECKING:
    from tfprobe.cli.diff import Gate, Places
    from tfprobe.profile.profile import Profile

_MEMORY = "memory"


def recording(name: str, places: Places) -> Profile:
    """Return the recording that a name means: a file, or a run."""
    if reading.is_file(name):
        if places.rank is not None:
            raise UsageError("A file holds one work: --rank is for runs.")
        with reading.progress(f"Reading {name}"):
            return file_profile(Path(name))
    folder = reading.chosen_run(name, places.output)
    with reading.progress(f"Reading captures of {folder.id}") as watch:
        return load(folder, this_machine(), rank=places.rank, watch=watch)


def earlier(run: str, output: str | None, last: int) -> tuple[str, ...]:
    """Return the runs of the same job before a run, in its directory of runs, oldest first.

    Raises NoAnswer where there is none.
    """
    from tfprobe.analysis.jobs.history import earlier_runs
    from tfprobe.profile.reader.processes import load as load_lines

    folder = reading.chosen_run(run, output)
    lines = load_lines(folder.root.parent, this_machine())
    line = next((each for each in lines if each.id == folder.id), None)
    found = () if line is None else earlier_runs(line, lines)
    if not found:
        hint = "Runs of one job have the same name (`tfprobe run --name`), or the same command."
        raise NoAnswer(f"No run of the job of {folder.id} is before it.", hint=hint)
    return tuple(each.directory for each in found[-last:])


def compare_sides(
    before: Sequence[str], after: Sequence[str], places: Places, gate: Gate
) -> list[tuple[str, Verdict]]:
    """Compare two sides of several runs, and show the answer; return what the gate says."""
    if gate.percent is not None and _MEMORY in gate.watched:
        hint = "Compare one run with one other."
        raise UsageError("--on memory is for one run a side: it has no scatter.", hint=hint)
    reference = recording(before[0], places)
    first_after = recording(after[0], places)
    # Of each run only levels are kept: of a profile of each there might be no room.
    ones = [levels(reference, reference), *_levels(reference, before[1:], places)]
    others = [levels(reference, first_after), *_levels(reference, after[1:], places)]
    found = sides(reference, first_after, ones, others)
    if isinstance(found, Missing):
        raise NoAnswer(f"These recordings cannot be compared: {found.reason}.")
    verdicts = [
        (on, judge_runs(found, on=on, allowed_ratio=gate.percent / 100))
        for on in dict.fromkeys(gate.watched)
        if gate.percent is not None
    ]
    if places.as_json:
        from tfprobe.report.documents.several_runs_document import document

        reading.show_json(document(found, verdicts))
    if places.markdown is not None:
        from tfprobe.report.diff.diff_runs import lay_out_markdown

        reading.write_file(places.markdown, lay_out_markdown(found, verdicts))
    if not places.as_json and places.markdown is None:
        from tfprobe.report.diff.diff_runs import lay_out

        width, colour = reading.page_width(), reading.page_colour()
        reading.show_page(lay_out(found, verdicts, width=width, colour=colour))
    return verdicts


def _levels(reference: Profile, names: Sequence[str], places: Places) -> list[RunLevels]:
    return [levels(reference, recording(name, places)) for name in names]
