"""Whose processes a sampler reads, and where what it reads belongs."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tfprobe.attach.sampler.processes import JobInterpreter, JobProcesses
from tfprobe.runs.layout import RunFolder

HOST = "node7"


class Machine:
    """A /proc and a run by hand."""

    def __init__(self, folder: Path) -> None:
        self.proc = folder / "proc"
        self.run = RunFolder(folder / "run")
        self.run.boot.mkdir(parents=True)

    def process(self, pid: int, parent: int = 1, ticks: int = 5) -> None:
        (self.proc / str(pid)).mkdir(parents=True, exist_ok=True)
        fields = ["S", str(parent), *["0"] * 17, str(ticks), "0"]
        (self.proc / str(pid) / "stat").write_text(f"{pid} (a) b) {' '.join(fields)}\n")

    def interpreter(self, pid: int, unix_ns: int = 0, host: str = HOST) -> None:
        with self.run.interpreters.open("a") as file:
            file.write(f"{host}\t{pid}\t{unix_ns}\t3.11.7\t/bin/python\n")

    def folder(self, pid: int, started_unix_ns: int, *, ticks: int = 5, first: int = 0) -> Path:
        folder = self.run.root / HOST / f"{pid}-{started_unix_ns}"
        folder.mkdir(parents=True)
        facts = {"pid": pid, "pid_started_ticks": ticks, "started_unix_ns": started_unix_ns}
        text = json.dumps(facts | {"interpreter_pid": first or pid})
        (folder / "process.json").write_text(text)
        return folder

    def job(self, pid: int, *, is_shared: bool = False) -> JobProcesses:
        return JobProcesses(self.run, HOST, pid, is_shared=is_shared, proc=self.proc)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine with the first process of a job, 10."""
    made = Machine(tmp_path)
    made.process(10)
    return made


def test_interpreters_are_met_once(machine: Machine) -> None:
    """Those of this host that are there."""
    job = machine.job(10)
    machine.interpreter(10, 3)
    machine.interpreter(11)
    machine.interpreter(12, host="elsewhere")

    assert list(job.new_interpreters()) == [JobInterpreter(10, 5, 3)]
    assert list(job.new_interpreters()) == []
    assert job.first_is_running()


def test_of_a_shared_run_only_descendants_are_read(machine: Machine) -> None:
    """Another launch has a sampler of its own; its processes count for the rate."""
    job = machine.job(10, is_shared=True)
    for pid, parent in ((11, 10), (12, 11), (20, 1), (21, 20)):
        machine.process(pid, parent)
    for pid in (12, 21):
        machine.interpreter(pid)

    assert [each.pid for each in job.new_interpreters()] == [12]
    assert job.count_of_others() == 1


def test_a_fork_is_met_by_its_folder(machine: Machine) -> None:
    """No interpreter starts there."""
    job = machine.job(10)
    machine.process(11, 10)
    machine.folder(10, 100)
    machine.folder(11, 200, first=10)

    assert list(job.new_forks()) == [JobInterpreter(11, 5, 200)]
    assert list(job.new_forks()) == []


def test_a_fork_is_met_although_folders_were_looked_at(machine: Machine) -> None:
    """For another process's sake."""
    job = machine.job(10)
    machine.process(11, 10)
    machine.folder(11, 200, first=10)

    machine.interpreter(10, 3)
    (first,) = job.new_interpreters()

    assert job.folder_of(first) is None
    assert [each.pid for each in job.new_forks()] == [11]


def test_each_interpreter_of_a_pid_has_its_own_folder(machine: Machine) -> None:
    """A process that replaced itself; and a pid that another process had before."""
    job = machine.job(10)
    for unix_ns in (101, 203, 302):
        machine.interpreter(10, unix_ns)
    machine.folder(10, 100, ticks=4)
    first, third = machine.folder(10, 101), machine.folder(10, 300)

    met = list(job.new_interpreters())
    found = [job.folder_of(each) for each in met]

    assert [None if each is None else each.root for each in found] == [first, None, third]


def test_the_end_of_the_first_process_is_seen(machine: Machine) -> None:
    """Also where its pid is another process's by now."""
    job = machine.job(10)

    machine.process(10, ticks=6)

    assert not job.first_is_running()
    assert not job.is_running(JobInterpreter(10, 5, 0))


def test_a_manifest_that_is_damaged_is_no_folder(machine: Machine) -> None:
    """It may be half written."""
    job = machine.job(10)
    machine.interpreter(10, 3)
    (machine.folder(10, 100) / "process.json").write_text('{"pid": "x"')

    assert [job.folder_of(each) for each in job.new_interpreters()] == [None]
    assert os.path.isdir(machine.run.root)
