"""A report of many processes is the same, whether they are read together or one by one."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from tests.support.profiles import Step, loop, op, process, profile
from tests.support.rank_runs import write_ranks
from tests.support.rundir import WrittenLoop, WrittenProcess, write_process, write_run
from tfprobe.analysis.ops import op_stats
from tfprobe.errors import Missing
from tfprobe.profile.capture_tables import Place
from tfprobe.profile.profile import Problem, Run
from tfprobe.profile.reader.run_reader import load
from tfprobe.query.shards import load_shard, rest_of, shards_of
from tfprobe.report.documents.run_report import (
    Report,
    ReportPart,
    gather_report,
    merge_report,
    report_document,
    report_part,
    run_facts,
)
from tfprobe.runs.catalogue import glance
from tfprobe.runs.layout import RunFolder
from tfprobe.runs.liveness import Machine

ELSEWHERE = Machine("elsewhere", None)
# A thousand of them are held at once: the budget of all is 300 MB.
MOST_BYTES = 100_000


def parts_of(root: Path) -> tuple[ReportPart, ...]:
    """Return the part of each process of a run, read by itself and sent through a pipe."""
    made = (report_part(load_shard(each)) for each in shards_of(RunFolder(root), ELSEWHERE))
    return tuple(pickle.loads(pickle.dumps(each)) for each in made)


def as_one(root: Path) -> Report:
    entry = glance(RunFolder(root), ELSEWHERE)
    rest = rest_of(entry, [each.folder.host for each in entry.processes])
    return merge_report(rest.run, parts_of(root), run_facts(rest))


def told(report: Report) -> tuple[object, ...]:
    """Return all that a report says: what its document leaves out, too."""
    causes = () if isinstance(report.breakdown, Missing) else report.breakdown.causes
    return (report_document(report), causes, report.accounts, report.hardware, report.problems)


@pytest.mark.parametrize(("ranks", "steps", "sampled"), [(1, 30, 2), (3, 40, 3), (10, 60, 2)])
def test_ranks_read_one_by_one_make_the_report_of_the_run(
    tmp_path: Path, ranks: int, steps: int, sampled: int
):
    """Op table, breakdown, causes, activities and accelerators agree to the last digit."""
    root = write_ranks(tmp_path / "run", ranks, steps, sampled=sampled, resource_samples=10)

    assert told(as_one(root)) == told(gather_report(load(RunFolder(root), ELSEWHERE)))


def test_the_accelerators_of_a_host_are_told_once(tmp_path: Path):
    """Eight ranks of one host do not make its accelerators eight times as many."""
    root = write_ranks(tmp_path / "run", 8, 20, resource_samples=6)

    devices = as_one(root).hardware.devices

    assert not isinstance(devices, Missing)
    assert len({(each.host, each.index) for each in devices}) == len(devices) > 0


def test_broken_captures_and_silent_processes_are_told_where_they_are(tmp_path: Path):
    """Problems come in the order of the run, and each once."""
    root = write_run(tmp_path / "run")
    for pid, steps in ((1, [(0, 5)]), (2, [])):
        loops = [WrittenLoop("fit", "m", steps=steps, sampled=(0,))] if steps else []
        captures = {"000000-fit-0.run_metadata.pb": b"no capture"}
        folder = write_process(
            root, WrittenProcess(pid=pid, loops=loops, captures=captures if steps else {})
        )
        (folder / "gaps.jsonl").write_text("{\n[]\n")
        (folder / "activities.jsonl").write_text("7\n7\n")
    (root / "run.json").write_text("{")

    found = as_one(root)

    whole = gather_report(load(RunFolder(root), ELSEWHERE))
    assert told(found) == told(whole)
    assert found.silences == whole.silences != ()
    assert len({(each.where, each.what) for each in found.problems}) == len(found.problems) > 3
    assert found.problems[0].where == "run.json"


def test_a_run_without_processes_says_why():
    """Nothing to merge is an answer: the reason, as for a run that is read at once."""
    empty = profile(processes=[])

    assert told(merge_report(empty.run, (), run_facts(empty))) == told(gather_report(empty))
    assert (
        merge_report(empty.run, (), run_facts(empty)).silences
        == gather_report(empty).silences
        != ()
    )


def test_of_a_live_run_without_processes_the_state_is_told():
    """A job that runs may import TensorFlow yet."""
    run = Run("id", "/r", Missing("x"), Missing("x"), "running")

    (text,) = merge_report(run, (), run_facts(profile(processes=[]))).silences

    assert "running" in text


def test_kernels_of_one_process_do_not_count_beside_ops_of_another():
    """`occurrences` are host rows where there is one in any process."""
    on_host = profile([Step([op("MatMul", 0, 5), op("MatMul", 9, 5)])])
    kernels = profile([Step([op("MatMul", 0, 7, Place.ACCELERATOR)])])

    table = op_stats.merge([op_stats.op_sums(kernels), op_stats.op_sums(on_host)])

    assert not isinstance(table, Missing)
    (only,) = table.types
    assert (only.runs, only.accelerator_ns, only.time_ns) == (2, 7_000, 17_000)


def test_a_part_is_small_however_long_the_job_ran(tmp_path: Path):
    """Eight thousand steps, their histograms and the rows of captures stay where they were read."""
    steps = loop([1_000_000 + at for at in range(8_000)])
    many = profile([Step([op(f"Op{at}", at, 1) for at in range(200)])] * 3, loops=[steps])

    assert len(pickle.dumps(report_part(many))) < MOST_BYTES


def test_problems_of_a_process_and_of_the_run_are_kept_apart():
    """What is of no process is told once, first of the run and last of its machines."""
    problems = (Problem("run.json", "a"), Problem("h/1-2", "b"), Problem("machine/h.jsonl", "c"))
    whole = profile(processes=[process()], problems=problems)

    two = merge_report(whole.run, (report_part(whole), report_part(whole)), run_facts(whole))

    assert [each.what for each in two.problems] == ["a", "b", "b", "c"]
