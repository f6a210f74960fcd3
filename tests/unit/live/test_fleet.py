"""A look at a directory of runs tells what is there now, and the next one what has changed."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.machines import live, machine
from tests.support.rundir import (
    BOOT_ID,
    HOST,
    LAYOUT,
    MONO_NS,
    PID_WORD,
    UNIX_NS,
    WrittenLoop,
    WrittenProcess,
    regular_steps,
    steps_bin,
    write_process,
    write_run,
)
from tfprobe.errors import Missing
from tfprobe.live.watched_process import HostClocks
from tfprobe.live.watched_runs import Fleet
from tfprobe.profile.snapshots import (
    LoopShares,
    ProcessSnapshot,
    RunSnapshot,
    TimeUse,
    TraceRequestState,
    WallTime,
)

SECOND_NS = 10**9
SHARES = LoopShares(0.5, 0.25, 0.25, 0.0, captures=1, newest_unix_ns=UNIX_NS)
RESOURCE_SAMPLE = {
    "mono_ns": MONO_NS,
    "steps": 3,
    "user_ns": 100,
    "system_ns": 20,
    "resident_bytes": 7,
}


@dataclass
class Time:
    """The clocks of the machine that looks, which move when a test says so."""

    mono_ns: int = MONO_NS + 60 * SECOND_NS
    unix_ns: int = UNIX_NS + 60 * SECOND_NS

    @property
    def clocks(self) -> HostClocks:
        return HostClocks(mono_ns=lambda: self.mono_ns, unix_ns=lambda: self.unix_ns)

    def pass_s(self, seconds: float) -> None:
        self.mono_ns += int(seconds * SECOND_NS)
        self.unix_ns += int(seconds * SECOND_NS)


class Place:
    """A directory of runs on a machine of its own."""

    def __init__(self, tmp_path: Path) -> None:
        self.runs = tmp_path / "runs"
        self.runs.mkdir()
        self.here = machine(tmp_path)
        self.time = Time()

    def fleet(self, directory: Path | None = None, **more) -> Fleet:
        return Fleet(directory or self.runs, self.here, clocks=self.time.clocks, **more)

    def add(self, name: str, steps: int = 10, pid: int = 4711, **changes) -> Path:
        """Add a run of one process that lives, and return its process folder."""
        root = self.runs / name
        if not root.exists():
            write_run(root, manifest={"id": name, "pid_started_ticks": 1234, "pid": pid})
        live(self.here.proc, pid, 1234)
        loops = [WrittenLoop(kind="fit", name="model", steps=regular_steps(steps))]
        header = {LAYOUT.USED: 1, PID_WORD: pid, **changes.pop("header", {})}
        return write_process(root, WrittenProcess(pid, loops=loops, header=header, **changes))

    def step_to(self, folder: Path, steps: int, **header: int) -> None:
        """Let a process make steps, without a new file."""
        loops = [WrittenLoop(kind="fit", name="model", steps=regular_steps(steps))]
        with (folder / "steps.bin").open("r+b") as file:
            file.write(steps_bin(loops, {PID_WORD: int(folder.name.split("-")[0])}))

    def end(self, folder: Path) -> None:
        shutil.rmtree(self.here.proc / folder.name.split("-")[0])


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A machine, and a directory of runs on it."""
    return Place(tmp_path)


def _only(looks: tuple) -> RunSnapshot:
    (look,) = looks
    return look


def _process(fleet: Fleet) -> ProcessSnapshot:
    return _only(_only(fleet.look().runs).processes)


def test_a_look_holds_runs_processes_works_and_steps(place):
    """What the manifests and steps.bin say, as every other command reads it."""
    place.add("r1", steps=20)

    look = place.fleet().look()

    run = _only(look.runs)
    assert (look.directory, look.at_unix_ns) == (str(place.runs), place.time.unix_ns)
    assert (run.run.id, run.run.state, run.host, run.user) == ("r1", "running", HOST, "ada")
    process = _only(run.processes)
    assert (process.process.pid, process.process.state) == (4711, "running")
    (loop,) = process.loops
    assert (loop.kind, loop.name, loop.count, len(loop.recent.end_ns)) == ("fit", "model", 20, 20)
    assert run.problems == look.problems == ()


def test_the_next_look_has_the_new_steps(place):
    """A job goes on while it is watched."""
    folder = place.add("r1", steps=20)
    fleet = place.fleet()
    fleet.look()

    place.step_to(folder, 2500)

    (loop,) = _process(fleet).loops
    assert (loop.count, loop.times.count, loop.recent.first_step) == (2500, 2500, 2500 - 1024)


def test_runs_appear_and_vanish(place):
    """Newest first, those that are being removed left out."""
    fleet = place.fleet()
    names = [[look.run.id for look in fleet.look().runs]]
    for number, name in enumerate(("old", "new")):
        root = write_run(
            place.runs / name, manifest={"id": name, "started_unix_ns": UNIX_NS + number}
        )
        names.append([look.run.id for look in fleet.look().runs])
    root.rename(root.with_name(".removing-new"))
    names.append([look.run.id for look in fleet.look().runs])
    shutil.rmtree(place.runs)
    names.append([look.run.id for look in fleet.look().runs])

    assert names == [[], ["old"], ["new", "old"], ["old"], []]


def test_processes_appear_and_vanish(place):
    """A job forks a worker; somebody removes its folder."""
    fleet = place.fleet()
    place.add("r1", pid=100)
    pids = [[each.process.pid for each in _only(fleet.look().runs).processes]]
    folder = place.add("r1", pid=200)
    pids.append([each.process.pid for each in _only(fleet.look().runs).processes])
    shutil.rmtree(folder)
    pids.append([each.process.pid for each in _only(fleet.look().runs).processes])

    assert pids == [[100], [100, 200], [100]]


def test_works_and_pulses_know_their_process(place):
    """`process` is a place in the run's processes, also when another comes before it."""
    fleet = place.fleet()
    folder = place.add("r1", pid=200)
    (folder / "pulses.jsonl").write_text(json.dumps(RESOURCE_SAMPLE) + "\n")
    fleet.look()

    place.add("r1", pid=100)

    first, second = _only(fleet.look().runs).processes
    assert [first.process.index, second.process.index] == [0, 1]
    assert [loop.process for loop in second.loops] == [1]
    assert [resource_sample.process for resource_sample in second.resource_samples] == [1]


def test_a_run_directory_is_a_fleet_of_one(place):
    """Who names a run watches it alone."""
    place.add("r1")
    place.add("r2", pid=200)

    look = place.fleet(place.runs / "r1").look()

    assert [each.run.id for each in look.runs] == ["r1"]


def test_a_directory_that_is_not_there_yet_has_no_runs(place):
    """Somebody may start watching before the first job."""
    fleet = place.fleet(place.runs / "later")
    before = fleet.look()

    write_run(place.runs / "later" / "r1", manifest={"id": "r1"})

    assert before.runs == before.problems == ()
    assert [each.run.id for each in fleet.look().runs] == ["r1"]


def test_pulses_are_those_of_the_file_on_the_wall_clock(place):
    """New ones come with the next look."""
    folder = place.add("r1")
    fleet = place.fleet()
    before = _process(fleet).resource_samples
    with (folder / "pulses.jsonl").open("a") as file:
        file.write(
            json.dumps(RESOURCE_SAMPLE)
            + "\n"
            + json.dumps({**RESOURCE_SAMPLE, "mono_ns": MONO_NS + 5})
            + "\n"
        )

    resource_samples = _process(fleet).resource_samples

    assert before == ()
    assert [resource_sample.at_ns for resource_sample in resource_samples] == [UNIX_NS, UNIX_NS + 5]
    assert (resource_samples[0].user_ns, resource_samples[0].resident_bytes) == (100, 7)


def test_the_accelerators_are_those_of_the_processes_hosts(place):
    """As the meter beside the job wrote them."""
    place.add("r1")
    (place.runs / "r1" / "machine").mkdir()
    device = {"index": 0, "name": "H200", "utilization_ratio": 0.5}
    for host in (HOST, "another"):
        (place.runs / "r1" / "machine" / f"{host}.jsonl").write_text(
            json.dumps({"unix_ns": UNIX_NS, "devices": [device]}) + "\n"
        )

    (resource_sample,) = _only(place.fleet().look().runs).machines

    assert (resource_sample.host, resource_sample.devices[0].utilization_ratio) == (HOST, 0.5)


def test_the_order_is_that_of_the_control_words(place):
    """How many samples were asked for and are still to come."""
    place.add("r1", header={LAYOUT.REQUEST: 3, LAYOUT.REQUEST_SEEN: 2, LAYOUT.REQUEST_LEFT: 7})

    assert _process(place.fleet()).request == TraceRequestState(sequence=3, seen=2, left=7)


def test_shares_are_asked_of_who_knows_them(place):
    """They are made of captures, which cost more to read than all else."""
    folder = place.add("r1")
    asked = []

    used = TimeUse(SHARES, WallTime(10, (("productive", 10),), 1.0))

    fleet = place.fleet(latest=lambda folder: asked.append(folder.root) or used)

    look = _process(fleet)
    assert TimeUse(look.shares, look.wall_time) == used
    assert asked == [folder]
    look = _process(place.fleet())
    assert isinstance(look.shares, Missing)
    assert isinstance(look.wall_time, Missing)


def test_captures_are_counted(place):
    """Those that are whole."""
    folder = place.add("r1", captures={"000001-fit-0.xplane.pb": b"", ".tmp-1": b""})
    fleet = place.fleet()
    before = _process(fleet).process.captures

    (folder / "captures" / "000002-fit-0.xplane.pb").touch()

    assert (before, _process(fleet).process.captures) == (1, 2)


@pytest.mark.parametrize("ended", [True, False])
def test_a_run_that_has_ended_is_read_no_more(place, monkeypatch, ended):
    """Hundreds of finished runs cost a look at their directories' times, no file of theirs."""
    folder = place.add("r1")
    fleet = place.fleet()
    if ended:
        place.end(folder)
    for _ in range(6):
        first = fleet.look()
        place.time.pass_s(1)
    opened: list[object] = []
    os_open = os.open
    monkeypatch.setattr(os, "open", lambda path, *more: opened.append(path) or os_open(path, *more))
    monkeypatch.setattr(os, "listdir", lambda path: pytest.fail(f"{path} was listed"))

    again = fleet.look()

    assert bool(opened) is not ended
    assert [run.run.state for run in again.runs] == [first.runs[0].run.state]
    assert (again.runs == first.runs) or not ended


def test_a_process_that_dies_is_read_to_its_last_step(place):
    """Steps between the last look at a process and its death are counted, too."""
    folder = place.add("r1", steps=10)
    fleet = place.fleet()
    fleet.look()
    place.time.pass_s(60)
    place.end(folder)
    place.step_to(folder, 25)
    counts = []
    for _ in range(8):
        counts.append(_process(fleet).loops[0].count)
        place.time.pass_s(1)

    assert counts == [25] * 8


def test_a_run_that_has_ended_is_read_again_when_a_process_comes(place):
    """A shell that waits an hour may start another job."""
    folder = place.add("r1", pid=100)
    place.end(folder)
    fleet = place.fleet()
    for _ in range(6):
        fleet.look()
        place.time.pass_s(1)

    place.add("r1", pid=200)

    states = [each.process.state for each in _only(fleet.look().runs).processes]
    assert states == ["killed", "running"]


def test_now_is_this_machines_clock_where_the_process_is_here(place):
    """One kernel has one monotonic clock, whatever somebody did to the other."""
    place.add("r1")
    place.time.unix_ns = 5

    assert _process(place.fleet()).now_mono_ns == place.time.mono_ns


def test_now_on_another_machine_goes_by_the_wall_clock(place):
    """By the moment that the process noted on both of its clocks."""
    place.add("r1", host="node9", manifest={"boot_id": "other"})
    place.time.mono_ns = 5

    assert _process(place.fleet()).now_mono_ns == MONO_NS + 60 * SECOND_NS


def test_now_is_never_before_the_last_step(place):
    """A clock that was stepped back makes no step come later than now."""
    place.add("r1", steps=10, host="node9", manifest={"boot_id": "other"})
    place.time.unix_ns = UNIX_NS - 3600 * SECOND_NS

    process = _process(place.fleet())

    assert process.now_mono_ns == int(process.loops[0].recent.end_ns[-1])


def test_a_container_of_this_machine_shares_its_clock(place):
    """It has a name of its own, but one kernel."""
    place.add("r1", host="container", manifest={"host": "container", "boot_id": BOOT_ID})

    assert _process(place.fleet()).now_mono_ns == place.time.mono_ns


def test_a_process_folder_without_its_files_is_a_problem(place):
    """What there is of it is shown."""
    folder = place.add("r1")
    fleet = place.fleet()
    fleet.look()
    (folder / "steps.bin").unlink()

    run = _only(fleet.look().runs)

    process = _only(run.processes)
    assert process.process.pid == 4711
    assert process.loops == ()
    assert all(
        isinstance(each, Missing)
        for each in (process.now_mono_ns, process.request, process.process.hooks)
    )
    assert [problem.where for problem in run.problems] == [f"{HOST}/{folder.name}"]
    assert "steps.bin" in run.problems[0].what


def test_what_a_profiler_service_recorded_is_finished(place):
    """It has one trace and no steps.bin, which is no problem."""
    service = {"address": f"{HOST}:6009", "port": 6009, "steps": 12, "duration_ns": SECOND_NS}
    root = write_run(place.runs / "r1", manifest={"services": [service["address"]]})
    manifest = {"pid": None, "service": service}
    folder = write_process(root, WrittenProcess(6009, manifest=manifest))
    (folder / "steps.bin").unlink()

    run = _only(place.fleet().look().runs)

    assert (run.run.state, run.processes[0].process.state, run.problems) == (
        "finished",
        "finished",
        (),
    )
    assert run.processes[0].process.label == "port 6009"


@pytest.mark.parametrize("content", [b"", b"TFPSTEP1", b"\xff" * 9000, bytes(50_000)])
def test_garbage_in_steps_bin_is_a_problem(place, content):
    """Before it was garbage it was none; and it may become whole."""
    folder = place.add("r1", steps=10)
    good = (folder / "steps.bin").read_bytes()
    fleet = place.fleet()
    fleet.look()
    (folder / "steps.bin").write_bytes(content)
    bad = _only(fleet.look().runs)
    (folder / "steps.bin").write_bytes(good)

    assert len(bad.problems) == 1
    assert [loop.count for loop in _process(fleet).loops] == [10]


def test_half_written_manifests_are_read_when_they_are_whole(place):
    """A folder that is being copied tells more and more."""
    folder = place.add("r1")
    paths = (place.runs / "r1" / "run.json", folder / "process.json")
    whole = [path.read_bytes() for path in paths]
    for path, content in zip(paths, whole, strict=True):
        path.write_bytes(content[: len(content) // 2])
    fleet = place.fleet()
    half = _only(fleet.look().runs)
    for path, content in zip(paths, whole, strict=True):
        path.write_bytes(content)

    assert [problem.where for problem in half.problems] == ["run.json", f"{HOST}/{folder.name}"]
    assert isinstance(half.host, Missing)
    assert half.processes[0].process.pid == 4711
    run = _only(fleet.look().runs)
    assert (run.problems, run.host) == ((), HOST)


def test_an_empty_folder_is_no_process_until_it_has_a_file(place):
    """An agent makes its folder first."""
    folder = place.add("r1", pid=200)
    kept = folder.rename(place.runs.parent / "kept")
    folder.mkdir()
    fleet = place.fleet()
    before = _only(fleet.look().runs).processes
    for path in kept.iterdir():
        path.rename(folder / path.name)

    assert before == ()
    assert _process(fleet).process.pid == 200


def test_a_run_that_vanishes_while_it_is_read_is_left_out(place, monkeypatch):
    """Whoever removes it does not wait for us."""
    place.add("r1")
    fleet = place.fleet()
    fleet.look()
    os_open = os.open

    def remove(*arguments, **more):
        monkeypatch.undo()
        shutil.rmtree(place.runs / "r1")
        return os_open(*arguments, **more)

    place.add("r2", pid=200)
    monkeypatch.setattr(os, "open", remove)

    assert [run.run.id for run in fleet.look().runs] == ["r2"]


def test_pulses_that_shrank_are_those_that_are_there(place):
    """A file cut or replaced is read from its start."""
    folder = place.add("r1")
    path = folder / "pulses.jsonl"
    path.write_text("".join(json.dumps({**RESOURCE_SAMPLE, "mono_ns": n}) + "\n" for n in range(5)))
    fleet = place.fleet()
    before = len(_process(fleet).resource_samples)

    path.write_text("rubbish\n" + json.dumps({**RESOURCE_SAMPLE, "mono_ns": MONO_NS}) + "\n")

    run = _only(fleet.look().runs)
    assert (
        before,
        [resource_sample.at_ns for resource_sample in run.processes[0].resource_samples],
    ) == (5, [UNIX_NS])
    assert "1 lines of pulses.jsonl" in run.problems[0].what


@pytest.mark.skipif(os.getuid() == 0, reason="root may read everything")
def test_what_is_closed_to_us_is_a_problem(place):
    """A directory of runs, and the processes of one host."""
    folder = place.add("r1")
    folder.parent.chmod(0)
    inside = place.fleet().look()
    place.runs.chmod(0)
    outside = place.fleet().look()
    place.runs.chmod(0o700)
    folder.parent.chmod(0o700)

    assert [problem.where for problem in _only(inside.runs).problems] == [HOST]
    assert [problem.where for problem in outside.problems] == ["."]
