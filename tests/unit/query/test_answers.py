"""Answers made of parts are those made of the whole, and are kept while no file is another one."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
from pathlib import Path

import pytest

from tests.support.plain import plain
from tests.support.questions import CAPTURE, ELSEWHERE, rank, write_ranks
from tests.support.rank_runs import write_ranks as write_gpu_ranks
from tests.support.rundir import BOOT_ID, LAYOUT, write_process, write_run
from tfprobe.analysis.account.account import Account
from tfprobe.analysis.account.categories import Category
from tfprobe.errors import Missing
from tfprobe.findings import engine
from tfprobe.profile.reader.run_reader import load
from tfprobe.profile.reader.traced_steps import costliest_loop
from tfprobe.query import cache, run_reports
from tfprobe.query.process_pool import Here
from tfprobe.query.run_reports import RunReport, answer
from tfprobe.report.documents.findings_document import advice_document
from tfprobe.report.documents.run_report import gather_report, report_document
from tfprobe.runs.layout import RunFolder
from tfprobe.runs.liveness import Machine


def by_the_whole(run: RunFolder, here: Machine = ELSEWHERE) -> list[object]:
    profile = load(run, here)
    advice = engine.advise(profile, costliest_loop(run, profile))
    return as_documents(RunReport(gather_report(profile), advice))


def as_documents(found: RunReport) -> list[object]:
    advice = advice_document(found.advice)
    return [report_document(found.report), advice, plain(found.report.hardware)]


class Counting:
    """Works here, and counts on what."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, shards: int, capture_bytes: int) -> Here:
        self.count += shards
        return Here()


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """Three processes, which are elsewhere."""
    return RunFolder(write_ranks(tmp_path / "run", 3))


def test_parts_make_the_answer_that_the_whole_makes(run):
    """A run that is read process by process gives the same report and advice, digit for digit."""
    assert as_documents(answer(run, ELSEWHERE)) == by_the_whole(run)


def test_ranks_that_meet_in_collectives_are_compared(tmp_path):
    """Who comes last is told of all ranks, also where each is read alone."""
    run = RunFolder(write_gpu_ranks(tmp_path / "run", 3, 20, sampled=6))

    found = answer(run, ELSEWHERE)

    assert as_documents(found) == by_the_whole(run)
    # Rank 0 comes last to the collective of each traced step.
    waited = [_waited(each) for each in found.report.accounts]
    assert waited == [[], ["for rank 0 in ncclDevKernel_AllReduce_Sum_f32_RING_LL"], []]


def _waited(account: Account | Missing) -> list[str]:
    assert isinstance(account, Account)
    return [item.what for item in account.items(Category.OTHERS)]


def test_many_processes_give_the_same_as_few(tmp_path):
    """Where there are too many to foresee whose graph is wanted, that one is asked again."""
    run = RunFolder(write_ranks(tmp_path / "run", 10))

    assert as_documents(answer(run, ELSEWHERE)) == by_the_whole(run)


def test_the_second_answer_reads_no_process(run):
    """What was answered once is kept in the run, and nothing is read again for it."""
    first = answer(run, ELSEWHERE)
    counting = Counting()

    second = answer(run, ELSEWHERE, choose=counting)

    assert (as_documents(second), counting.count) == (as_documents(first), 0)


@pytest.mark.parametrize(("size", "names"), [(None, []), (0, ["answers"])])
def test_one_process_is_cached_if_there_is_much_to_read(tmp_path, monkeypatch, size, names):
    """Below that the answer takes as long without a cache; its summary is never cached, too."""
    if size is not None:
        monkeypatch.setattr(run_reports, "UNCACHED_BYTES", size)
    run = RunFolder(write_ranks(tmp_path / "run", 1))

    first, second = answer(run, ELSEWHERE), answer(run, ELSEWHERE)

    assert as_documents(first) == as_documents(second) == by_the_whole(run)
    assert [path.name for path in run.derived.glob("*")] == names


def test_a_process_that_changes_is_read_again_alone(run):
    """A capture that comes later is in the next answer; other processes are not read for it."""
    answer(run, ELSEWHERE)
    (capture,) = (run.root / "node0").glob(f"4712-*/captures/{CAPTURE}")
    capture.write_bytes(b"\xff" * 9)
    counting = Counting()

    found = answer(run, ELSEWHERE, choose=counting)

    # Read once more for the other whose graph is wanted now.
    assert (as_documents(found), counting.count) == (by_the_whole(run), 1)


def test_steps_that_the_file_system_has_not_noted_are_seen(run):
    """steps.bin is written through a mapping: it tells of new steps itself, whatever its time."""
    answer(run, ELSEWHERE)
    folder = run.processes()[0]
    times = (os.stat(folder.steps).st_atime_ns, os.stat(folder.steps).st_mtime_ns)
    content = bytearray(folder.steps.read_bytes())
    content[LAYOUT.EXIT_WORD * LAYOUT.WORD] = 1
    folder.steps.write_bytes(content)
    os.utime(folder.steps, ns=times)
    counting = Counting()

    answer(run, ELSEWHERE, choose=counting)

    assert counting.count == 1


def test_a_process_more_is_in_the_next_answer(run):
    """A rank that a merge adds later is not missed for what was kept before."""
    answer(run, ELSEWHERE)
    write_process(run.root, rank(7))

    found = answer(run, ELSEWHERE)

    assert as_documents(found) == by_the_whole(run)


def test_of_a_run_that_runs_only_what_has_ended_is_kept(tmp_path):
    """A process that runs may make a step at any moment, which no file tells of at once."""
    lives = {"boot_id": BOOT_ID, "pid": os.getpid(), "pid_started_ticks": None, "host": "node0"}
    run = RunFolder(write_run(tmp_path / "run", [rank(0), rank(1, manifest=lives)]))
    here = Machine("node0", BOOT_ID)
    answer(run, here)
    counting = Counting()

    found = answer(run, here, choose=counting)

    assert [each.process.state for each in found.report.processes] == ["killed", "running"]
    assert counting.count == 1
    assert not (run.derived / "answers").exists()


def test_a_launch_that_joins_a_run_that_has_ended_is_in_the_next_answer(tmp_path):
    """The run is running again, whatever was said of it."""
    here = Machine("node7", BOOT_ID)
    run = RunFolder(
        write_run(
            tmp_path / "run",
            [rank(0, header={LAYOUT.STATE_WORD: LAYOUT.FINISHED})],
            manifest={"pid": -1},
        )
    )
    before = answer(run, here).report.run.state
    lives = {"pid": os.getpid(), "pid_started_ticks": here.look_up(os.getpid()).started_ticks}
    launch = json.loads(run.manifest.read_text()) | lives
    run.launches.mkdir()
    (run.launches / "node7-1.json").write_text(json.dumps(launch))

    after = answer(run, here).report.run.state

    assert (before, after) == ("finished", "running")


def test_other_limits_and_ranks_have_answers_of_their_own(run):
    """What is kept for one question does not answer another."""
    answer(run, ELSEWHERE)

    found = answer(run, ELSEWHERE, rank=2)

    assert [each.process.rank for each in found.report.processes] == [2]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b"null",
        b"[" * 100_000,
        b'{"schema": "tfprobe.kept/1"}',
        b"\xff\xfe",
    ],
)
def test_a_damaged_file_is_ignored_and_replaced(run, content):
    """Whatever somebody has put in the place of what was kept, the answer is right."""
    expected = as_documents(answer(run, ELSEWHERE))
    (path,) = (run.derived / "answers").iterdir()
    for each in (path, *(run.derived / "parts" / "node0").iterdir()):
        each.write_bytes(content)

    found = [as_documents(answer(run, ELSEWHERE)) for _ in range(2)]

    assert found == [expected, expected]
    assert path.read_bytes() != content


def test_a_file_that_lies_about_its_type_is_ignored(run):
    """A value of another shape under the right key is not an answer."""
    expected = as_documents(answer(run, ELSEWHERE))
    (path,) = (run.derived / "answers").iterdir()
    document = json.loads(path.read_text())
    document["value"][0][0] = {"__reduce__": ["os.system", "true"]}
    path.write_text(json.dumps(document))

    assert as_documents(answer(run, ELSEWHERE)) == expected


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_a_number_that_no_document_can_show_is_ignored(run, number):
    """Somebody put it there: the answer is made again instead of failing where it is shown."""
    expected = as_documents(answer(run, ELSEWHERE))
    (path,) = (run.derived / "answers").iterdir()
    content = path.read_text()
    spoiled = re.sub(r"(?<=[\[,])\d+\.\d+(e-?\d+)?(?=[\],])", number, content)
    path.write_text(spoiled)

    assert spoiled != content
    assert as_documents(answer(run, ELSEWHERE)) == expected


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_a_number_that_no_document_can_show_is_not_kept(run, number):
    """What would not be read is not written."""
    path = run.derived / "answers" / "one.json"

    cache.write(run, path, "key", number, float)

    assert not path.exists()


def test_a_copy_of_a_run_is_another_run(run, tmp_path):
    """What was kept of the original names its directory, so a copy answers for itself."""
    answer(run, ELSEWHERE)
    copy = RunFolder(shutil.copytree(run.root, tmp_path / "copy"))

    assert answer(copy, ELSEWHERE).report.run.directory == str(copy.root)


def test_what_is_kept_is_the_users_alone(run):
    """Directories are 0700 and files 0600, and nothing half-written stays."""
    answer(run, ELSEWHERE)

    found = [run.derived, *run.derived.rglob("*")]

    modes = {each.is_dir(): stat.S_IMODE(each.stat().st_mode) for each in found}
    assert modes == {True: 0o700, False: 0o600}
    assert not [each for each in found if each.name.startswith(".tmp-")]


def test_a_link_in_the_place_of_derived_is_not_followed(run, tmp_path):
    """A run from a stranger cannot make tfprobe write elsewhere."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    run.derived.symlink_to(elsewhere)

    found = answer(run, ELSEWHERE)

    assert (as_documents(found), list(elsewhere.iterdir())) == (by_the_whole(run), [])


def test_a_file_in_the_place_of_derived_is_no_error(run):
    """Where nothing can be kept, the answer is made each time."""
    run.derived.write_text("")

    assert as_documents(answer(run, ELSEWHERE)) == by_the_whole(run)


def test_a_process_removed_while_it_is_read_is_missed_and_said_to_be(run):
    """The rest is answered, and the next answer does not repeat what was missing."""
    gone = run.processes()[1]

    def remove(shards: int, capture_bytes: int) -> Here:
        shutil.rmtree(gone.root)
        return Here()

    found = answer(run, ELSEWHERE, choose=remove)

    assert [each.process.rank for each in found.report.processes] == [0, 2]
    assert [each.where for each in found.report.problems] == [f"node0/{gone.name}"]
    assert as_documents(answer(run, ELSEWHERE)) == by_the_whole(run)


def test_two_processes_of_one_rank_are_both_there_once(tmp_path):
    """Nothing is lost or counted twice where two processes claim a rank."""
    claims = {"rank": {"source": "TF_CONFIG", "index": 0, "world": 2}}
    run = RunFolder(write_run(tmp_path / "run", [rank(0), rank(1, manifest=claims)]))

    found = answer(run, ELSEWHERE)

    assert [each.process.rank for each in found.report.processes] == [0, 0]
    assert as_documents(found) == by_the_whole(run)


def test_a_rank_killed_at_half_is_in_the_answer(tmp_path):
    """Of a process that was killed there is what it had written: its steps, no exit, no capture."""
    run = RunFolder(write_run(tmp_path / "run", [rank(0), rank(1)]))
    killed = run.processes()[1]
    content = killed.events.read_bytes()
    killed.events.write_bytes(content + content[: len(content) // 2])
    (killed.captures / ".tmp-000003-session_run-0.run_metadata.pb").write_bytes(b"half")

    found = answer(run, ELSEWHERE)

    assert as_documents(found) == by_the_whole(run)
    assert [len(each.loops) for each in found.report.processes] == [1, 1]
