"""The state of a run and its processes follows from their files and from /proc, by no clock."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.machines import BOOTED_S, NAMESPACE, live, machine
from tests.support.rundir import (
    BOOT_ID,
    HOST,
    LAYOUT,
    MONO_NS,
    UNIX_NS,
    WrittenProcess,
    write_json,
    write_run,
)
from tfprobe.runs.catalogue import glance, has_ended
from tfprobe.runs.layout import RunFolder
from tfprobe.runs.liveness import Machine, this_machine

HOUR_NS = 3600 * 10**9
LAUNCHED: Mapping[str, Any] = {"pid_started_ticks": 1234, "pid_namespace": NAMESPACE}


def _state(root: Path, here: Machine) -> str:
    return glance(RunFolder(root), here).state


def _process_state(root: Path, here: Machine) -> str:
    (process,) = glance(RunFolder(root), here).processes
    return process.state


def test_a_live_pid_with_the_same_start_is_running(tmp_path):
    """The process that wrote the folder still exists."""
    root = write_run(tmp_path / "r1", [WrittenProcess()])

    assert _state(root, machine(tmp_path, p4711=1234)) == "running"


@pytest.mark.parametrize(
    ("letter", "state"),
    [(letter, "running") for letter in "RSDI"]
    + [(letter, "stopped") for letter in "Tt"]
    + [(letter, "killed") for letter in "ZX"],
)
def test_the_letter_of_proc_tells_running_stopped_and_gone(tmp_path, letter, state):
    """A process that a signal or a debugger holds is stopped; a zombie has ended."""
    root = write_run(tmp_path / "r1", [WrittenProcess()], manifest=LAUNCHED)
    here = machine(tmp_path)

    live(here.proc, 4711, 1234, letter)

    assert (_state(root, here), _process_state(root, here)) == (state, state)


def test_a_pid_used_again_is_killed(tmp_path):
    """Another process with the same pid started at another time."""
    root = write_run(tmp_path / "r1", [WrittenProcess()], manifest=LAUNCHED)

    here = machine(tmp_path, p4711=99)

    assert (_state(root, here), _process_state(root, here)) == ("killed", "killed")


def test_what_cannot_be_read_does_not_say_that_a_process_was_killed(tmp_path):
    """A disk that fails now may hold the note of a good end; that it is over is known."""
    root = write_run(tmp_path / "r1", [WrittenProcess()], manifest=LAUNCHED)
    (folder,) = RunFolder(root).processes()
    folder.steps.write_bytes(b"")
    here = machine(tmp_path)

    entry = glance(RunFolder(root), here)

    assert (entry.state, entry.processes[0].state) == ("unknown", "unknown")
    assert entry.why_unknown.endswith("noted of its end cannot be read")
    assert has_ended(entry, here)
    live(here.proc, 4711, 1234, "S")
    assert _state(root, here) == "running"


def test_a_process_gone_without_exit_hook_is_killed(tmp_path):
    """SIGKILL, os._exit or a lost machine leave the state at running."""
    root = write_run(tmp_path / "r1", [WrittenProcess()])

    assert _state(root, machine(tmp_path)) == "killed"


def test_a_process_with_its_exit_hook_is_finished(tmp_path):
    """The main process's end is the run's, whatever became of its workers."""
    root = write_run(
        tmp_path / "r1",
        [WrittenProcess(header={LAYOUT.STATE_WORD: LAYOUT.FINISHED}), WrittenProcess(pid=9)],
    )

    assert _state(root, machine(tmp_path)) == "finished"


@pytest.mark.parametrize("started_unix_ns", [0, UNIX_NS - HOUR_NS, UNIX_NS + 24 * HOUR_NS])
@pytest.mark.parametrize("booted_s", [0, BOOTED_S, BOOTED_S + 10**7])
def test_a_clock_that_was_set_changes_no_state(tmp_path, started_unix_ns, booted_s):
    """Whatever the clock said at the start, and says now of the boot: the ticks decide."""
    manifest = {**LAUNCHED, "started_unix_ns": started_unix_ns}
    root = write_run(tmp_path / "r1", manifest=manifest)
    here = machine(tmp_path, booted_s=booted_s, p4711=1234)

    assert _state(root, here) == "running"
    live(here.proc, 4711, 1235)
    assert _state(root, here) == "unknown"  # another process has the pid, and none was recorded


def test_the_first_process_counts_before_any_is_recorded(tmp_path):
    """A job that has not imported TensorFlow yet runs, or is stopped, as its first process is."""
    root = write_run(tmp_path / "r1", manifest=LAUNCHED)
    here = machine(tmp_path, p4711=1234)

    assert _state(root, here) == "running"
    live(here.proc, 4711, 1234, "T")
    assert _state(root, here) == "stopped"


def test_a_pid_without_its_start_may_be_anybodys(tmp_path):
    """A launcher that could not read /proc leaves a pid that proves nothing while it is there."""
    root = write_run(tmp_path / "r1")

    assert _state(root, machine(tmp_path, p4711=1234)) == "unknown"


def test_a_shell_that_waits_for_a_stopped_process_is_a_stopped_run(tmp_path):
    """What was recorded says more than the shell that launched it."""
    worker = WrittenProcess(pid=9, manifest={"pid": 9})
    root = write_run(tmp_path / "r1", [worker], manifest=LAUNCHED)
    here = machine(tmp_path, p4711=1234, p9=1234)

    live(here.proc, 9, 1234, "T")

    assert _state(root, here) == "stopped"


def test_one_running_process_makes_a_run_running(tmp_path):
    """Though all others are stopped or gone."""
    processes = [WrittenProcess(pid=pid, manifest={"pid": pid}) for pid in (7, 8, 9)]
    root = write_run(tmp_path / "r1", processes, manifest=LAUNCHED)
    here = machine(tmp_path, p8=1234, p9=1234)

    live(here.proc, 8, 1234, "T")

    assert _state(root, here) == "running"


def test_another_machine_is_unknown(tmp_path):
    """Nobody here can look up a pid of another host."""
    root = write_run(tmp_path / "r1", [WrittenProcess()])

    assert _state(root, Machine("elsewhere", BOOT_ID)) == "unknown"


@pytest.mark.parametrize("ticks", [{}, {"p4711": 1234}])
def test_another_container_is_unknown(tmp_path, ticks):
    """Containers may share the host's name, never its pids: 4711 is somebody else here."""
    process = WrittenProcess(manifest={"pid_namespace": NAMESPACE})
    root = write_run(tmp_path / "r1", [process], manifest=LAUNCHED)

    here = replace(machine(tmp_path, **ticks), pid_namespace="pid:[8]")

    assert (_state(root, here), _process_state(root, here)) == ("unknown", "unknown")


def test_a_reboot_killed_the_process(tmp_path):
    """The same host with another boot id holds none of the processes of before."""
    root = write_run(tmp_path / "r1", [WrittenProcess()])

    here = replace(machine(tmp_path, booted_s=UNIX_NS // 10**9 + 60), boot_id="other-boot")

    assert _state(root, here) == "killed"


def test_what_started_after_our_boot_and_in_another_is_elsewhere(tmp_path):
    """Two machines with one host name, as containers have them: it may be running there."""
    root = write_run(tmp_path / "r1", [WrittenProcess()])

    here = replace(machine(tmp_path), boot_id="other-boot")

    assert _state(root, here) == "unknown"


def test_our_own_process_is_alive():
    """/proc is read on this machine as it is."""
    here = this_machine()

    assert here.started_ticks(os.getpid()) is not None
    assert here.started_ticks(2**22 + 1) is None
    assert here.knows(here.host, here.boot_id, here.pid_namespace)
    assert here.pid_namespace is not None


# Word 25 of a known exit status, and of one that the C library will store.
FOLLOWS = 1


def _status(number: int) -> int:
    return number << 16 | 0x330E


@pytest.mark.parametrize(
    ("words", "there", "gone"),
    [
        ({LAYOUT.STATE_WORD: LAYOUT.FINISHED}, "finished", "finished"),
        (
            {
                LAYOUT.STATE_WORD: LAYOUT.FINISHED,
                LAYOUT.ENDING_WORD: 1,
                LAYOUT.STATUS_WORD: _status(0),
            },
            "finished",
            "finished",
        ),
        (
            {
                LAYOUT.STATE_WORD: LAYOUT.FINISHED,
                LAYOUT.ENDING_WORD: 1,
                LAYOUT.STATUS_WORD: _status(3),
            },
            "failed",
            "failed",
        ),
        ({LAYOUT.STATE_WORD: LAYOUT.FINISHED, LAYOUT.ENDING_WORD: 2}, "failed", "failed"),
        (
            {
                LAYOUT.STATE_WORD: LAYOUT.FINISHED,
                LAYOUT.ENDING_WORD: 2,
                LAYOUT.STATUS_WORD: _status(0),
            },
            "finished",
            "finished",
        ),
        (
            {
                LAYOUT.STATE_WORD: LAYOUT.FINISHED,
                LAYOUT.ENDING_WORD: 1,
                LAYOUT.STATUS_WORD: FOLLOWS,
            },
            "running",
            "finished",
        ),
        (
            {
                LAYOUT.STATE_WORD: LAYOUT.FINISHED,
                LAYOUT.ENDING_WORD: 2,
                LAYOUT.STATUS_WORD: FOLLOWS,
            },
            "running",
            "failed",
        ),
        ({LAYOUT.STATE_WORD: LAYOUT.DISABLED, LAYOUT.ENDING_WORD: 1}, "finished", "finished"),
        ({LAYOUT.ENDING_WORD: 3, LAYOUT.STATUS_WORD: _status(0)}, "finished", "finished"),
        ({LAYOUT.ENDING_WORD: 3, LAYOUT.STATUS_WORD: _status(4)}, "failed", "failed"),
        # A fork of C code stored it there: it is not the process's own while that is there.
        ({LAYOUT.STATUS_WORD: _status(0)}, "running", "finished"),
        ({}, "running", "killed"),
        ({LAYOUT.ENDING_WORD: 77, LAYOUT.STATUS_WORD: -1}, "running", "killed"),
    ],
)
def test_what_a_process_noted_of_its_end(tmp_path, words, there, gone):
    """A status tells finished from failed; without one the exception, then the exit hooks do."""
    root = write_run(tmp_path / "r1", [WrittenProcess(header=words)])

    for place, processes, state in (("a", {"p4711": 1234}, there), ("b", {}, gone)):
        (tmp_path / place).mkdir()
        assert _process_state(root, machine(tmp_path / place, **processes)) == state


@pytest.mark.parametrize(
    ("line", "state"),
    [
        ("node7\t9\t{after}\t4711\t15", "terminated"),
        ("node7\t9\t{after}\t-77\t9", "terminated"),
        ("node7\t9\t{before}\t4711\t15", "killed"),
        ("node7\t9\t{after}\t4712\t15", "killed"),
        ("node8\t9\t{after}\t4711\t15", "killed"),
        ("node7\t4711\t{after}\t4711\t9", "killed"),
        # By the clock that nobody sets, where the line has it; this process started at {mono}.
        ("node7\t9\t{before}\t4711\t15\t{mono}", "terminated"),
        ("node7\t9\t{after}\t4711\t15\t1", "killed"),
        ("garbage\t1", "killed"),
    ],
)
def test_a_process_that_its_job_told_to_end_is_terminated(tmp_path, line, state):
    """By a signal of another process of the job, since it started, to it or its group."""
    root = write_run(tmp_path / "r1", [WrittenProcess(manifest={"pgid": 77})])
    told = line.format(before=UNIX_NS - 1, after=UNIX_NS + 1, mono=MONO_NS)
    (root / "boot" / "signals.tsv").write_text(f"{told}\n")

    assert _process_state(root, machine(tmp_path)) == state


@pytest.mark.parametrize(
    ("seen", "state"),
    [
        ({"status": 0}, "finished"),
        ({"status": 2}, "failed"),
        ({"signal": 9}, "killed"),
    ],
)
def test_what_the_launcher_saw_counts_for_a_program_without_a_record(tmp_path, seen, state):
    """Such as a shell, whatever became of those that it started."""
    root = write_run(tmp_path / "r1", [WrittenProcess(pid=9)])
    (root / "launches").mkdir()
    document = {"schema": "tfprobe.exit/1", "host": HOST, "pid": 4711, **seen}
    write_json(root / "launches" / f"{HOST}-4711.exit.json", document)

    assert _state(root, machine(tmp_path)) == state


def _programs(tmp_path: Path, *words: Mapping[int, int]) -> Path:
    """A shell that started these programs one after the other, and was not recorded."""
    processes = [
        WrittenProcess(pid=pid, header={LAYOUT.EXIT_WORD: UNIX_NS + pid, **each})
        for pid, each in enumerate(words, start=10)
    ]
    return write_run(tmp_path / "r1", processes)


@pytest.mark.parametrize(
    ("statuses", "state"),
    [((0, 0, 3), "failed"), ((0, 3, 0), "finished"), ((3, 0, None), "failed"),
     ((0, None, 3), "killed"), ((0, 0, None), "killed")],
)  # fmt: skip
def test_a_shell_ended_as_its_last_program_did(tmp_path, statuses, state):
    """If that did not end well, as the first of those that did not."""
    words = [
        {} if each is None else {LAYOUT.ENDING_WORD: 1, LAYOUT.STATUS_WORD: _status(each)}
        for each in statuses
    ]

    assert _state(_programs(tmp_path, *words), machine(tmp_path)) == state


@pytest.mark.parametrize(("first", "last"), [((0, 5), (3, 4)), ((3, 4), (0, 5))])
def test_a_shells_last_program_is_the_last_on_the_clock_that_nobody_sets(tmp_path, first, last):
    """The wall clock was set back between the ends of two programs."""
    words = [
        {
            LAYOUT.ENDING_WORD: 1,
            LAYOUT.STATUS_WORD: _status(status),
            LAYOUT.EXIT_WORD: UNIX_NS + unix_s,
            LAYOUT.EXIT_MONO_WORD: MONO_NS + 10 + at,
        }
        for at, (status, unix_s) in enumerate((first, last))
    ]

    state = "failed" if last[0] else "finished"
    assert _state(_programs(tmp_path, *words), machine(tmp_path)) == state


def test_why_nobody_can_tell_is_told(tmp_path):
    """Not of this very machine that it is another one."""
    silent = write_run(tmp_path / "a", manifest=LAUNCHED)
    elsewhere = write_run(tmp_path / "b", manifest={**LAUNCHED, "host": "node8"})

    seen = [glance(RunFolder(root), machine(tmp_path)) for root in (silent, elsewhere)]

    assert [each.state for each in seen] == ["unknown", "unknown"]
    assert seen[0].why_unknown == "it has ended, and no recorded process shows how"
    assert seen[1].why_unknown == "it ran on node8, which cannot be inspected from here"
