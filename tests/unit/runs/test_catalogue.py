"""Runs are found by directory, id or `latest`, and their state follows from files and /proc."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.machines import machine
from tests.support.rundir import (
    LAYOUT,
    MONO_NS,
    UNIX_NS,
    WrittenLoop,
    WrittenProcess,
    regular_steps,
    write_json,
    write_run,
)
from tfprobe.errors import Missing, NoAnswer, UnreadableInput
from tfprobe.runs import catalogue
from tfprobe.runs.catalogue import find_run, glance, list_runs
from tfprobe.runs.layout import RunFolder, parse_capture_name
from tfprobe.runs.manifests import ProcessManifest


def test_runs_are_listed_newest_first(tmp_path):
    """The latest run is the first line."""
    for i, name in enumerate(["b", "a", "c"]):
        write_run(tmp_path / "runs" / name, manifest={"started_unix_ns": UNIX_NS + i})

    names = [run.folder.id for run in list_runs(tmp_path / "runs", machine(tmp_path))]

    assert names == ["c", "a", "b"]


def test_a_run_that_is_removed_while_it_is_listed_is_left_out(tmp_path, monkeypatch):
    """`tfprobe gc` in another terminal does not make a line without a command."""
    for name in ("a", "b"):
        write_run(tmp_path / "runs" / name)

    def vanish_and_glance(run, here):
        if run.id == "a":
            os.rename(run.root, run.root.with_name(".removing-1-a"))
        return glance(run, here)

    monkeypatch.setattr(catalogue, "glance", vanish_and_glance)

    assert [run.folder.id for run in list_runs(tmp_path / "runs", machine(tmp_path))] == ["b"]


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
    loop = WrittenLoop(steps=regular_steps(7), raised=[0])
    processes = [WrittenProcess(loops=[loop]), WrittenProcess(pid=9, loops=[loop])]
    root = write_run(tmp_path / "r1", processes)

    assert glance(RunFolder(root), machine(tmp_path)).steps == 12


def _cut(path: Path, size: int) -> None:
    path.write_bytes(path.read_bytes()[:size])


def _become_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


HALVES: dict[str, Callable[[Path], None]] = {
    "no process.json": lambda folder: (folder / "process.json").unlink(),
    "half a process.json": lambda folder: _cut(folder / "process.json", 40),
    "no steps.bin": lambda folder: (folder / "steps.bin").unlink(),
    "an empty steps.bin": lambda folder: _cut(folder / "steps.bin", 0),
    "half a header": lambda folder: _cut(folder / "steps.bin", 2048),
    "a header and half a work": lambda folder: _cut(folder / "steps.bin", 4100),
    "a pipe for steps.bin": lambda folder: _become_pipe(folder / "steps.bin"),
}


@pytest.mark.parametrize("what", HALVES)
def test_a_half_written_folder_is_listed_with_what_is_missing(tmp_path, what: str) -> None:
    """A process that died while it made its folder does not hide its run, nor raise."""
    loop = WrittenLoop(steps=regular_steps(5))
    root = write_run(tmp_path / "r1", [WrittenProcess(loops=[loop]), WrittenProcess(pid=9)])
    HALVES[what](next(root.glob("*/4711-*")))

    entry = glance(RunFolder(root), machine(tmp_path))

    whole = [p for p in entry.processes if not isinstance(p.manifest, Missing)]
    seen = [p for p in whole if not isinstance(p.header, Missing)]
    assert 9 in {p.manifest.pid for p in seen if isinstance(p.manifest, ProcessManifest)}
    assert (len(seen) < 2) == (what != "a header and half a work")
    assert entry.state in ("killed", "unknown")


def test_an_empty_process_folder_is_none(tmp_path):
    """A process that died before it wrote anything left nothing to list."""
    root = write_run(tmp_path / "r1")
    (root / "node7" / "5-1").mkdir(parents=True)

    assert glance(RunFolder(root), machine(tmp_path)).processes == ()


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
    assert (name.step, name.kind, name.loop) == (123, "train_on_batch", 2)


def _launched(root: Path, *pids: int) -> None:
    """Write the records of further launches."""
    document = json.loads((root / "run.json").read_text())
    (root / "launches").mkdir()
    for pid in pids:
        write_json(root / "launches" / f"x-{pid}.json", {**document, "pid": pid})


@pytest.mark.parametrize(
    ("states", "expected"),
    [((2, 2), "finished"), ((2, 1), "killed"), ((1, 2), "killed")],
)
def test_a_run_of_two_launches_is_over_when_both_are(tmp_path, states, expected) -> None:
    """And one rank that was killed counts more than all that finished."""
    processes = [
        WrittenProcess(pid=pid, header={LAYOUT.STATE_WORD: state})
        for pid, state in zip((4711, 4712), states, strict=True)
    ]
    root = write_run(tmp_path / "r", processes)
    _launched(root, 4712)

    assert glance(RunFolder(root), machine(tmp_path)).state == expected


def test_what_is_no_launch_is_passed_over(tmp_path) -> None:
    """Garbage among the records, a directory, a link that leads nowhere."""
    root = write_run(tmp_path / "r")
    _launched(root, 4712)
    (root / "launches" / "bad.json").write_text("{")
    (root / "launches" / "dir.json").mkdir()
    (root / "launches" / "gone.json").symlink_to("nowhere")

    assert [launch.pid for launch in glance(RunFolder(root), machine(tmp_path)).launches] == [4712]


REPLACED = {LAYOUT.ENDING_WORD: 4}


@pytest.mark.parametrize(
    ("later", "expected"),
    [
        (
            {LAYOUT.STATE_WORD: LAYOUT.FINISHED, LAYOUT.ENDING_WORD: 1, LAYOUT.STATUS_WORD: 0x330E},
            "finished",
        ),
        (
            {
                LAYOUT.STATE_WORD: LAYOUT.FINISHED,
                LAYOUT.ENDING_WORD: 1,
                LAYOUT.STATUS_WORD: 3 << 16 | 0x330E,
            },
            "failed",
        ),
        ({}, "killed"),
        (None, "unknown"),
    ],
)
def test_a_run_whose_program_replaced_itself_ends_as_the_last_one_does(
    tmp_path, later, expected
) -> None:
    """Both have one pid; what was not recorded may have ended in any way."""
    processes = [WrittenProcess(header=REPLACED)]
    if later is not None:
        manifest = {"started_unix_ns": UNIX_NS + 1_000_000_000}
        processes.append(WrittenProcess(header=later, manifest=manifest))
    root = write_run(tmp_path / "r", processes)

    entry = glance(RunFolder(root), machine(tmp_path))

    assert entry.state == expected
    assert entry.processes[0].state == "replaced"
    assert ("was not recorded" in entry.why_unknown) == (expected == "unknown")


def test_a_child_that_replaced_itself_says_nothing_of_the_run(tmp_path) -> None:
    """Of a run whose first process was not recorded, the others tell."""
    processes = [
        WrittenProcess(
            pid=10,
            header={
                LAYOUT.STATE_WORD: LAYOUT.FINISHED,
                LAYOUT.ENDING_WORD: 1,
                LAYOUT.STATUS_WORD: 3 << 16 | 0x330E,
            },
        ),
        WrittenProcess(pid=11, header=REPLACED),
    ]
    root = write_run(tmp_path / "r", processes)

    assert glance(RunFolder(root), machine(tmp_path)).state == "failed"


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.ENOTCONN])
@pytest.mark.parametrize("call", ["listdir", "stat"])
def test_a_disk_that_fails_is_not_taken_for_an_empty_one(
    tmp_path, monkeypatch, call: str, number: int
) -> None:
    """Nobody can tell what runs there are: neither none, nor fewer."""
    write_run(tmp_path / "runs" / "r1", [WrittenProcess()])
    original = getattr(os, call)

    def fail(path, *rest, **options):
        if isinstance(path, Path) and path.is_relative_to(tmp_path / "runs"):
            raise OSError(number, os.strerror(number), str(path))
        return original(path, *rest, **options)

    monkeypatch.setattr(os, call, fail)

    with pytest.raises(UnreadableInput, match=os.strerror(number)):
        list_runs(tmp_path / "runs", machine(tmp_path))


DAY_NS = 24 * 3600 * 10**9


EXITED = {
    LAYOUT.STATE_WORD: LAYOUT.FINISHED,
    LAYOUT.EXIT_WORD: UNIX_NS + 7 * DAY_NS,
    LAYOUT.EXIT_MONO_WORD: MONO_NS + 5,
}
GONE = {LAYOUT.ACTIVE_WORD: MONO_NS + 5}


@pytest.mark.parametrize(
    ("words", "set_by_ns"),
    [(EXITED, 0), (EXITED, DAY_NS), (EXITED, -DAY_NS), (GONE, DAY_NS), (GONE, -DAY_NS)],
)
def test_the_end_of_a_process_of_this_boot_is_told_by_the_clock_of_now(tmp_path, words, set_by_ns):
    """Whatever the wall clock showed when it started, and when it ended."""
    write_run(tmp_path / "r1", [WrittenProcess(header=words)])
    shift_ns = UNIX_NS - MONO_NS + set_by_ns
    here = replace(machine(tmp_path), unix_minus_monotonic_ns=shift_ns)

    entry = glance(RunFolder(tmp_path / "r1"), here)

    assert entry.active_unix_ns == UNIX_NS + 5 + set_by_ns


def test_the_end_of_a_process_of_another_boot_is_told_by_its_own_clock(tmp_path):
    """As it was when it ended: it may have been set right meanwhile."""
    write_run(tmp_path / "r1", [WrittenProcess(header=EXITED, manifest={"boot_id": "another"})])
    here = replace(machine(tmp_path), unix_minus_monotonic_ns=UNIX_NS - MONO_NS + DAY_NS)

    assert glance(RunFolder(tmp_path / "r1"), here).active_unix_ns == UNIX_NS + 7 * DAY_NS


def test_a_launch_counts_as_sign_of_life_where_no_process_gave_one(tmp_path):
    """A clock that was set back since the launch does not make a later sign of it."""
    launched = {"started_unix_ns": UNIX_NS + DAY_NS}
    write_run(
        tmp_path / "with",
        [
            WrittenProcess(
                header={LAYOUT.STATE_WORD: LAYOUT.FINISHED, LAYOUT.EXIT_WORD: UNIX_NS + 5}
            )
        ],
        manifest=launched,
    )
    write_run(tmp_path / "without", manifest=launched)

    found = [glance(RunFolder(tmp_path / name), machine(tmp_path)) for name in ("with", "without")]

    assert [each.active_unix_ns for each in found] == [UNIX_NS + 5, UNIX_NS + DAY_NS]
