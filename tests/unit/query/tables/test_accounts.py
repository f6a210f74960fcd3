"""The table `account` is the account of the report, and decodes no capture that a report has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.asked_tables import asked, opened, sampled_process
from tests.support.rank_runs import write_ranks
from tests.support.rundir import write_run
from tfprobe.analysis.account.account import Account
from tfprobe.analysis.account.categories import Category
from tfprobe.query import queries
from tfprobe.query.run_reports import answer
from tfprobe.query.tables.query import ask
from tfprobe.report.documents.run_report import Report, report_document
from tfprobe.runs.layout import RunFolder
from tfprobe.runs.liveness import this_machine


def report_of(run: Path) -> Report:
    return answer(RunFolder(run), this_machine()).report


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run that has ended, of two processes with captures."""
    return write_run(tmp_path / "run", [sampled_process(rank=0), sampled_process(rank=1, pid=4712)])


def test_parts_sum_to_what_the_report_says(run: Path) -> None:
    """Of each process, to the nanosecond; a part of nothing is there with 0."""
    query = "select process, host, rank, part, sum(ns) from account group by all order by process"

    _, rows = asked(query, run)

    told = [
        (at, each.process.host, each.process.rank, part.category.value, part.ns)
        for at, (each, account) in enumerate(_accounts(report_of(run)))
        for part in account.parts
    ]
    assert sorted(rows) == sorted(told)
    assert sum(row[4] > 0 for row in rows) > 2


def test_items_are_those_of_the_report(run: Path) -> None:
    """By name and line, with their share and the samples that divided them."""
    query = "select part, what, file, line, ns, ratio, samples from account where process = 0"

    _, rows = asked(f"{query} and (what is not null or file is not null)", run)

    assert rows
    assert sorted(rows, key=str) == sorted(_items(report_of(run)), key=str)


def test_what_ranks_wait_for_each_other_is_a_row(tmp_path: Path) -> None:
    """It shows beside the others, and is what the report says."""
    run = write_ranks(tmp_path / "run", 2, 20, sampled=6)
    query = "select process, what, ns, samples from account where part = 'waiting_for_others'"

    _, rows = asked(f"{query} and ns > 0", run)

    _, account = _accounts(report_of(run))[1]
    [item] = account.items(Category.OTHERS)
    assert rows == [(1, item.what, item.ns, 6)]


def test_the_ratios_of_a_process_sum_to_one(run: Path) -> None:
    """What is not named of a part is a row, too."""
    _, rows = asked("select process, sum(ratio) from account group by all order by 1", run)

    assert rows == [(0, pytest.approx(1)), (1, pytest.approx(1))]


def test_no_capture_is_decoded_after_a_report(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `report` has kept is the answer."""
    report_of(run)

    def fail(*_: Any, **__: Any) -> None:
        raise AssertionError("a process was read")

    monkeypatch.setattr(queries, "load_shard", fail)

    _, rows = asked("select distinct process from account order by 1", run)

    assert rows == [(0,), (1,)]


def test_other_tables_are_read_without_it(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks for steps waits for no report."""

    def fail(*_: Any, **__: Any) -> None:
        raise AssertionError("a report was made")

    monkeypatch.setattr("tfprobe.query.tables.loader.answer", fail)

    assert asked("select count(*) from steps", run)[1] == [(40,)]


def test_a_process_that_cannot_be_read_is_a_problem(run: Path) -> None:
    """The others have their rows."""
    lost = next(run.glob("*/4711-*"))
    load_shard = queries.load_shard

    def load(shard: Any, **needs: Any) -> Any:
        if shard.folder == lost.name:
            raise OSError("gone")
        return load_shard(shard, **needs)

    with pytest.MonkeyPatch.context() as patched, opened(run) as tables:
        patched.setattr(queries, "load_shard", load)
        found = ask(tables, "select distinct process from account")
        rows = [row for batch in found.batches for row in batch]
        problems = tables.problems

    assert rows == [(1,)]
    (problem,) = problems
    assert problem.where == f"node7/{lost.name}"


def test_history_has_the_goodput_of_the_report(tmp_path: Path) -> None:
    """Of all processes of a run together."""
    both = [sampled_process(rank=0), sampled_process(rank=1, pid=4712)]
    runs = [write_run(tmp_path / "a", both), write_run(tmp_path / "b", both[:1])]

    _, rows = asked("select run, goodput_ratio from history order by run", *runs)

    wanted = [report_document(report_of(run))["account"]["goodput_ratio"] for run in runs]
    assert [name for name, _ in rows] == ["a", "b"]
    assert [ratio for _, ratio in rows] == [pytest.approx(each, abs=1e-5) for each in wanted]
    assert min(wanted) > 0


def _accounts(report: Report) -> list[tuple[Any, Account]]:
    pairs = zip(report.processes, report.accounts, strict=True)
    return [(each, account) for each, account in pairs if isinstance(account, Account)]


def _items(report: Report) -> list[tuple[Any, ...]]:
    _, account = _accounts(report)[0]
    found = []
    for part in account.parts:
        for item in part.items:
            if item.what or item.source:
                file, _, line = item.source.rpartition(":")
                at = (file or None, int(line) if line else None)
                share = item.ns / account.wall_ns
                about = (part.category.value, item.what or None, *at)
                found.append((*about, item.ns, share, item.samples or None))
    return found
