"""One run has the same slow ranks wherever one is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.looks import fleet
from tests.support.looks import process as process_look
from tests.support.looks import run as run_look
from tests.support.rank_steps import write_rank_steps
from tfprobe.analysis.jobs.fleet import run_rows
from tfprobe.analysis.jobs.job_totals import straggler
from tfprobe.analysis.timeline.rank_timeline import LAST, SLOW
from tfprobe.profile.profile import Profile
from tfprobe.profile.reader.run_reader import load
from tfprobe.query.process_pool import Here
from tfprobe.query.queries import compare_ranks
from tfprobe.query.run_reports import answer
from tfprobe.report.documents.process_groups import Reason, process_groups
from tfprobe.runs.layout import RunFolder
from tfprobe.runs.liveness import Machine
from tfprobe.web import answers
from tfprobe.web.opened import OpenRun
from tfprobe.web.params import Params

ELSEWHERE = Machine("elsewhere", None)
RANKS = 10


def of_ranks(root: Path) -> list[int | None]:
    """Return whom `tfprobe ranks` names."""
    across = compare_ranks(RunFolder(root), ELSEWHERE, lambda _shards, _bytes: Here()).across
    return [across.rows[each.process].process.rank for each in across.stragglers]


def of_report(root: Path) -> list[int | None]:
    """Return whom `tfprobe report` names."""
    groups = process_groups(answer(RunFolder(root), ELSEWHERE).report)
    return [each.report.process.rank for each in groups.notable if each.reason is Reason.SLOW]


def of_findings(root: Path) -> list[int | None]:
    """Return whom the findings name."""
    findings = answer(RunFolder(root), ELSEWHERE).advice.findings
    return [each.subject.rank for each in findings if each.rule == "straggler"]


def of_page(root: Path) -> list[int | None]:
    """Return whom the pages of the ranks and of the processes name."""
    page = answers.answer(OpenRun(RunFolder(root), ELSEWHERE), "ranks", Params({}))
    return [each["rank"] for each in page["stragglers"]]


def of_timeline(root: Path) -> list[int | None]:
    """Return the ranks that the timeline draws because they are slow, or make others wait."""
    run = OpenRun(RunFolder(root), ELSEWHERE)
    first = run.profile.captures[0].index
    page = answers.answer(run, "timeline-ranks", Params({"capture": str(first)}))
    return [each["rank"] for each in page["ranks"] if each["why"] in (LAST, SLOW)]


def of_top(root: Path) -> list[int | None]:
    """Return whom `tfprobe top` names while the run goes on."""
    profile: Profile = load(RunFolder(root), ELSEWHERE)
    looks = [
        process_look(
            [loop for loop in profile.loops if loop.process == each.index],
            pid=each.pid,
            rank=each.rank,
            folder=each.folder,
        )
        for each in profile.processes
    ]
    (row,) = run_rows(fleet(run_look(looks)))
    slow = straggler(row)
    return [] if slow is None else [slow.rank]


@pytest.mark.parametrize("surface", [of_ranks, of_report, of_findings, of_page, of_top])
def test_a_rank_with_long_steps_is_the_slow_one_everywhere(tmp_path: Path, surface) -> None:
    """The others wait for it between their steps, and no step was traced."""
    root = write_rank_steps(
        tmp_path / "r1", RANKS, steps=40, slow=2, late_us=6_000, sampled=range(0)
    )

    assert surface(root) == [2]


@pytest.mark.parametrize("surface", [of_ranks, of_report, of_page, of_timeline])
def test_a_rank_that_comes_late_to_collectives_is_the_slow_one_everywhere(
    tmp_path, surface
) -> None:
    """Its steps are as long as the others': only traced steps tell, which `top` does not read."""
    root = write_rank_steps(tmp_path / "r1", RANKS, steps=40, slow=2, late_us=300)

    assert surface(root) == [2]
    assert of_top(root) == []


@pytest.mark.parametrize("surface", [of_ranks, of_report, of_findings, of_page, of_top])
def test_among_equals_nobody_names_a_rank(tmp_path: Path, surface) -> None:
    """Somebody is always last."""
    root = write_rank_steps(tmp_path / "r1", RANKS, steps=40, slow=2, late_us=12)

    assert surface(root) == []
