"""The rows of tables are what the recording tells, and NULL where it does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.asked_tables import asked, sampled_process, window, write_recorded
from tests.support.rundir import UNIX_NS, WrittenProcess, write_run
from tfprobe.analysis.ops.op_stats import OpTable, op_table
from tfprobe.profile.reader.run_reader import load
from tfprobe.runs.layout import RunFolder
from tfprobe.runs.liveness import this_machine


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of one process, rank 0."""
    return write_recorded(tmp_path / "run")


def test_a_run_is_told_by_its_manifest(run: Path) -> None:
    """runs has a row a run."""
    query = "select run, command, host, user, state, processes, steps from runs"

    _, rows = asked(query, run)

    assert rows == [("run", "python train.py --epochs 3", "node7", "ada", "finished", 1, 20)]


def test_a_process_is_told_with_its_rank(run: Path) -> None:
    """processes has a row a process; what nobody knows is NULL."""
    query = "select process, host, rank, role, pid, port, tensorflow, devices from processes"

    _, rows = asked(query, run)

    assert rows == [(0, "node7", 0, "worker", 4711, None, "2.21.0", None)]


def test_a_work_has_exact_sums(run: Path) -> None:
    """works has what reports have, to the nanosecond."""
    query = "select kind, name, completed, sampled, duration_sum_ns, gap_max_ns from works"

    _, rows = asked(query, run)

    assert rows == [("session_run", "loss,train_op", 20, 2, 20_000_000, 100_000)]


def test_steps_are_the_remembered_ones_on_the_wall_clock(run: Path) -> None:
    """steps has a row a step, and the gap before it where that is known."""
    query = "select step, start_ns, duration_ns, gap_ns, sampled from steps where step in (0, 3)"

    _, rows = asked(query, run)

    assert rows == [
        (0, UNIX_NS, 1_000_000, None, False),
        (3, UNIX_NS + 3_300_000, 1_000_000, 100_000, True),
    ]


def test_executions_stand_with_their_step_and_rank(run: Path) -> None:
    """executions has a row for each execution of a node."""
    query = (
        "select process, host, rank, work, step, capture, name, op_type, place, duration_ns, "
        "bytes, output_bytes, correlation from executions where capture = 1 order by start_ns"
    )

    _, rows = asked(query, run)

    about = (0, "node7", 0, 0, 4, 1)
    assert rows == [
        (*about, "x", "Const", "host", 5_000, 0, 0, None),
        (*about, "layer/MatMul", "MatMul", "host", 30_000, 400, 256, None),
        (*about, "y", "y", "host", 2_000, 0, 0, None),
    ]


def test_allocations_have_their_sign(run: Path) -> None:
    """allocations has what was given, and what was taken back below 0."""
    _, rows = asked("select op, bytes from allocations where capture = 0 order by at_ns", run)

    assert rows == [("layer/MatMul", 400), ("layer/MatMul", -400)]


def test_threads_have_a_row_a_sample(run: Path) -> None:
    """thread_times has those of Python with their place, and others by name."""
    query = (
        "select at_ns, since_ns, thread, is_python, threads, cpu_ns, file, line, is_in_python "
        "from thread_times order by cpu_ns desc nulls last"
    )

    _, rows = asked(query, run)

    assert rows == [
        (UNIX_NS, None, "worker", True, 1, 70, "job.py", 26, True),
        (UNIX_NS, None, "tf_Compute", False, 2, 30, None, None, False),
        (UNIX_NS, None, None, False, 1, 0, None, None, False),
        (UNIX_NS, None, None, True, 1, None, "job.py", 7, False),
    ]


def test_calls_sum_to_their_gap(run: Path) -> None:
    """calls has the functions of each gap; one written in C has no file."""
    _, rows = asked("select call, parent, function, file, count, self_ns from calls", run)

    assert rows == [(0, None, "main", "train.py", 1, 60), (1, 0, "builtins.len", None, 3, 40)]
    assert asked("select duration_ns, cost_ns, cut from gaps", run)[1] == [(100, 7, False)]


def test_an_xspace_has_no_bytes(tmp_path: Path) -> None:
    """What a recording cannot tell is NULL, not 0."""
    process = WrittenProcess(captures={"000003-fit-0.xplane.pb": window()})
    run = write_run(tmp_path / "run", [process])

    _, rows = asked("select name, bytes, output_bytes from executions order by start_ns", run)

    assert rows == [("x", None, None), ("layer/MatMul", None, None)]
    assert asked("select kind, name from spans", run)[1] == [("function_call", "train_step")]


def test_ops_sum_to_what_reports_say(run: Path) -> None:
    """The same sums as the op table, to the last digit."""
    query = "select coalesce(op_type, ''), sum(duration_ns), count(*) from executions group by 1"

    _, rows = asked(query, run)

    table = op_table(load(RunFolder(run), this_machine()))
    assert isinstance(table, OpTable)
    assert sorted(rows) == sorted((op.type, op.time_ns, op.runs) for op in table.types)


def test_processes_of_a_run_are_numbered_as_in_reports(tmp_path: Path) -> None:
    """process is the place in the run, whichever files the rows come from."""
    processes = [
        sampled_process(rank=rank, pid=100 + rank, host=f"node{1 - rank}") for rank in (0, 1)
    ]
    run = write_run(tmp_path / "run", processes)

    _, rows = asked("select distinct process, host, rank from executions order by all", run)

    profile = load(RunFolder(run), this_machine())
    assert rows == [(each.index, each.host, each.rank) for each in profile.processes]


def test_a_directory_of_runs_is_all_of_them(tmp_path: Path) -> None:
    """Every table says which run a row is of."""
    runs = [write_recorded(tmp_path / name) for name in ("one", "two")]

    _, rows = asked("select run, count(*) from executions group by all order by run", *runs)

    assert rows == [("one", 6), ("two", 6)]
    assert asked("select run from works order by run", *runs)[1] == [("one",), ("two",)]


def test_a_run_of_nothing_has_empty_tables(tmp_path: Path) -> None:
    """No process, no rows, and no error."""
    run = write_run(tmp_path / "run")

    for table in ("processes", "steps", "executions", "captures", "problems"):
        assert asked(f"select count(*) from {table}", run)[1] == [(0,)]


def test_a_process_without_captures_is_there(tmp_path: Path) -> None:
    """Steps are told, executions are none."""
    run = write_run(tmp_path / "run", [sampled_process(captures=0)])

    assert asked("select count(*) from steps", run)[1] == [(20,)]
    assert asked("select count(*) from executions", run)[1] == [(0,)]


def test_a_corrupt_capture_is_a_problem(tmp_path: Path) -> None:
    """The others are answered, and what is missing is said."""
    process = sampled_process()
    process.captures = {**process.captures, "000004-session_run-0.run_metadata.pb": b"\xff" * 50}
    run = write_run(tmp_path / "run", [process])

    _, rows = asked("select count(*) from executions", run)

    assert rows == [(3,)]
    ((process_number, part),) = asked("select process, part from problems", run)[1]
    assert (process_number, part.endswith("000004-session_run-0.run_metadata.pb")) == (0, True)
