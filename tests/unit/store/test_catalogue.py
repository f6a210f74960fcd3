"""Runs are found by directory, id or `latest`, and their state follows from files and /proc."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.rundir import (
    BOOT_ID,
    HOST,
    UNIX_NS,
    WrittenProcess,
    WrittenWork,
    regular_steps,
    write_run,
)
from tfprobe.errors import Missing, NoAnswer, UnreadableInput
from tfprobe.store.catalogue import find_run, glance, list_runs
from tfprobe.store.layout import RunFolder, parse_capture_name
from tfprobe.store.liveness import Machine, this_machine


def machine(tmp_path: Path, **ticks_by_pid: int) -> Machine:
    """A machine on which exactly the given pids (as `p4711`) live, with these start ticks."""
    proc = tmp_path / "proc"
    proc.mkdir(exist_ok=True)
    for pid, ticks in ticks_by_pid.items():
        (proc / pid[1:]).mkdir()
        # A command name with spaces and parentheses, as some jobs have.
        stat = f"{pid[1:]} (py (thon) S 1) S " + "0 " * 18 + f"{ticks} 0 0\n"
        (proc / pid[1:] / "stat").write_text(stat)
    return Machine(HOST, BOOT_ID, proc)


def test_runs_are_listed_newest_first(tmp_path):
    """The latest run is the first line."""
    for i, name in enumerate(["b", "a", "c"]):
        write_run(tmp_path / "runs" / name, manifest={"started_unix_ns": UNIX_NS + i})

    names = [run.folder.id for run in list_runs(tmp_path / "runs", machine(tmp_path))]

    assert names == ["c", "a", "b"]


def test_a_run_is_found_by_directory_id_and_latest(tmp_path):
    """The same run answers to its path, its id and `latest`."""
    root = write_run(tmp_path / "runs" / "r1")

    found = [find_run(name, tmp_path / "runs").root for name in (str(root), "r1", "latest")]

    assert found == [root, root, root]


def test_a_name_that_is_no_run_is_refused(tmp_path):
    """The error says what was looked for and where."""
    write_run(tmp_path / "runs" / "r1")

    with pytest.raises(UnreadableInput, match="r2"):
        find_run("r2", tmp_path / "runs")


def test_latest_of_nothing_has_no_answer(tmp_path):
    """Before the first run there is none to report, which is not an error of the input."""
    with pytest.raises(NoAnswer, match="no run"):
        find_run("latest", tmp_path)


def test_a_lost_run_json_leaves_a_run(tmp_path):
    """Without its manifest a run is still listed, with the reason."""
    root = write_run(tmp_path / "r1", [WrittenProcess()])
    (root / "run.json").unlink()

    entry = glance(RunFolder(root), machine(tmp_path))

    assert isinstance(entry.manifest, Missing)
    assert len(entry.processes) == 1


@pytest.mark.skipif(os.getuid() == 0, reason="root may read everything")
def test_runs_of_others_are_left_out(tmp_path):
    """On a shared machine a run closed to this user does not stop a listing."""
    write_run(tmp_path / "runs" / "r1")
    closed = write_run(tmp_path / "runs" / "r2")
    closed.chmod(0)

    names = [run.folder.id for run in list_runs(tmp_path / "runs", machine(tmp_path))]

    assert names == ["r1"]


def test_steps_are_those_of_all_processes(tmp_path):
    """A run's steps are completed steps over its processes."""
    work = WrittenWork(steps=regular_steps(7), raised=[0])
    processes = [WrittenProcess(works=[work]), WrittenProcess(pid=9, works=[work])]
    root = write_run(tmp_path / "r1", processes)

    assert glance(RunFolder(root), machine(tmp_path)).steps == 12


def test_a_live_pid_with_the_same_start_is_running(tmp_path):
    """The process that wrote the folder still exists."""
    root = write_run(tmp_path / "r1", [WrittenProcess()])

    assert glance(RunFolder(root), machine(tmp_path, p4711=1234)).state == "running"


def test_a_pid_used_again_is_killed(tmp_path):
    """Another process with the same pid started at another time."""
    root = write_run(tmp_path / "r1", [WrittenProcess(pid=5, manifest={"pid": 5})])

    (process,) = glance(RunFolder(root), machine(tmp_path, p5=99)).processes

    assert process.state == "killed"


def test_a_process_gone_without_exit_hook_is_killed(tmp_path):
    """SIGKILL, os._exit or a lost machine leave the state at running."""
    root = write_run(tmp_path / "r1", [WrittenProcess()])

    assert glance(RunFolder(root), machine(tmp_path)).state == "killed"


def test_a_process_with_its_exit_hook_is_finished(tmp_path):
    """The main process's end is the run's, whatever became of its workers."""
    processes = [WrittenProcess(header={11: 2}), WrittenProcess(pid=9)]
    root = write_run(tmp_path / "r1", processes)

    assert glance(RunFolder(root), machine(tmp_path)).state == "finished"


def test_another_machine_is_unknown(tmp_path):
    """Nobody here can look up a pid of another host."""
    root = write_run(tmp_path / "r1", [WrittenProcess()])

    assert glance(RunFolder(root), Machine("elsewhere", BOOT_ID)).state == "unknown"


def test_a_reboot_killed_the_process(tmp_path):
    """The same host with another boot id holds none of the old processes."""
    root = write_run(tmp_path / "r1", [WrittenProcess()])

    assert glance(RunFolder(root), Machine(HOST, "other-boot")).state == "killed"


def test_our_own_process_is_alive():
    """/proc is read on this machine as it is."""
    here = this_machine()

    assert here.started_ticks(os.getpid()) is not None
    assert here.started_ticks(2**22 + 1) is None


def test_temporary_files_are_no_captures(tmp_path):
    """A capture that is being written does not exist yet."""
    captures = {"000001-fit-0.xplane.pb": b"x", ".tmp-000002-fit-0.xplane.pb": b"x"}
    root = write_run(tmp_path / "r1", [WrittenProcess(captures=captures)])

    (folder,) = RunFolder(root).processes()

    assert [path.name for path in folder.capture_files()] == ["000001-fit-0.xplane.pb"]


def test_a_capture_name_tells_step_kind_and_work():
    """What the event log lost, the name still says."""
    name = parse_capture_name("000123-train_on_batch-2.run_metadata.pb")

    assert name is not None
    assert (name.step, name.kind, name.work) == (123, "train_on_batch", 2)
