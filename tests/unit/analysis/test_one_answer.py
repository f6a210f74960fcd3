"""One question has one answer, wherever it is asked: report, breakdown, findings, pages, trend."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.support.open_runs import ToldRun
from tests.support.profiles import HOOKS, Step, op, process, profile, timed_loop
from tests.support.rundir import MONO_NS, UNIX_NS
from tests.unit.analysis.account.test_collectives import job
from tests.unit.analysis.distributed.test_collectives import reduce
from tfprobe.analysis.breakdown.cycles import run_breakdown
from tfprobe.analysis.compare.several_runs import trend
from tfprobe.findings.engine import advise
from tfprobe.profile.profile import Profile
from tfprobe.report.documents.breakdown_document import shares_document
from tfprobe.report.documents.findings_document import advice_document
from tfprobe.report.documents.run_report import gather_report, report_document
from tfprobe.web import answers
from tfprobe.web.params import Params

MS = 1_000_000


@pytest.fixture
def told() -> Profile:
    """A loop that waits for its input, with two traced steps."""
    steps = [
        Step([op("IteratorGetNext", 0, 4000), op("MatMul", 4000, 5000)], duration_us=10_000)
    ] * 2
    return profile(
        steps,
        loops=[timed_loop([10 * MS] * 200, 2 * MS, sampled=[50, 51], start_ns=MONO_NS)],
        processes=[
            process(
                unix_minus_monotonic_ns=UNIX_NS - MONO_NS,
                exec_ns=UNIX_NS,
                hooks=replace(HOOKS, wall_ns=3_000 * MS),
            )
        ],
    )


def _page(told: Profile, name: str) -> dict[str, Any]:
    found: dict[str, Any] = answers.answer(ToldRun(told), name, Params({}))
    return found


def test_the_account(told: Profile) -> None:
    """The report's parts are those of the page; goodput is that of the trend of runs."""
    account = report_document(gather_report(told))["account"]
    page = _page(told, "shares")["account"]

    there = {part["part"]: part["ns"] for part in account["parts"] if part["ns"]}
    assert {part["part"]: part["ns"] for part in page["parts"]} == there
    assert page["wall_ns"] == account["wall_ns"]
    # Any: the line of `ls` is only passed on.
    line: Any = None
    (row,) = trend([(line, told)])
    assert row.goodput_ratio == pytest.approx(account["goodput_ratio"], abs=1e-5)


@pytest.fixture
def ranks() -> Profile:
    """Two ranks that recorded the same steps: the second comes late to their collective."""
    return job({0: [[reduce(100, 800)]] * 3, 1: [[reduce(700, 200)]] * 3})


def test_the_account_of_ranks_that_wait(ranks: Profile) -> None:
    """What they wait for each other is the same on the page and in the trend of runs."""
    account = report_document(gather_report(ranks))["account"]
    page = _page(ranks, "shares")["account"]

    there = {part["part"]: part["ns"] for part in account["parts"] if part["ns"]}
    assert there["waiting_for_others"] > 0
    assert {part["part"]: part["ns"] for part in page["parts"]} == there
    # Any: the line of `ls` is only passed on.
    line: Any = None
    (row,) = trend([(line, ranks)])
    assert row.goodput_ratio == pytest.approx(account["goodput_ratio"], abs=1e-5)


def test_the_cycle_of_a_step(told: Profile) -> None:
    """The report, `tfprobe breakdown` and the page have the same shares."""
    report = report_document(gather_report(told))["breakdown"]
    page = _page(told, "shares")["breakdown"]

    assert shares_document(run_breakdown(told)) == report
    of_page = {each["part"]: each["share_ratio"] for g in page["groups"] for each in g["parts"]}
    of_report = {
        name: share
        for group in ("before", "on", "after", "other_of_which")
        for name, share in report[group].items()
        if share
    }
    assert of_page == of_report


def test_what_steps_wait_for(told: Profile) -> None:
    """The account's waiting for input is the share that traced steps have of it."""
    parts = {
        part["part"]: part for part in report_document(gather_report(told))["account"]["parts"]
    }
    (waited,) = (each for each in parts["input_wait"]["of"] if each["what"] == "input wait")
    productive_ns = sum(each["ns"] for each in parts["productive"]["of"])

    ratio = waited["ns"] / (waited["ns"] + productive_ns)
    assert ratio == pytest.approx(0.4, abs=0.02)


def test_findings(told: Profile) -> None:
    """Those of `tfprobe advise` are those of the report and of the page."""
    advice = advise(told)
    findings = advice_document(advice)["findings"]

    assert findings
    assert report_document(gather_report(told), advice)["findings"] == findings
    # The page joins the loop with its graph, by which layers and lines are named, too.
    page = [each["rule"] for each in _page(told, "findings")["findings"]]
    assert [rule for rule in page if rule != "expensive_scopes"] == [
        each["rule"] for each in findings
    ]
