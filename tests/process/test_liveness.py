"""Real processes, stopped, let go on, killed and not yet reaped: what a listing says of them."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from tests.process.conftest import Start
from tests.process.launching import Launcher
from tfprobe.runs.catalogue import glance
from tfprobe.runs.layout import RunFolder
from tfprobe.runs.liveness import this_machine
from tfprobe.runs.proc import started_ticks


def _states(launcher: Launcher) -> tuple[str, list[str]]:
    (run,) = launcher.runs()
    entry = glance(RunFolder(run), this_machine())
    return entry.state, [process.state for process in entry.processes]


def _await(pid: int, change: int) -> None:
    """Wait until a child has stopped, gone on or ended, and leave it as it is."""
    os.waitid(os.P_PID, pid, change | os.WNOWAIT)


def test_a_stopped_job_is_told_from_a_running_one(launcher: Launcher, start: Start) -> None:
    """SIGSTOP, SIGCONT and SIGKILL, the last before its parent has asked how it ended."""
    job = start()
    seen = [_states(launcher)]

    for number, change in (
        (signal.SIGSTOP, os.WSTOPPED),
        (signal.SIGCONT, os.WCONTINUED),
        (signal.SIGKILL, os.WEXITED),
    ):
        job.send_signal(number)
        _await(job.pid, change)
        seen.append(_states(launcher))

    assert seen == [(state, [state]) for state in ("running", "stopped", "running", "killed")]


def test_a_job_without_tensorflow_is_seen_by_its_first_process(
    launcher: Launcher, start: Start
) -> None:
    """Nothing of it is recorded but that it was launched."""
    job = start(command=("sh", "-c", "echo ready; exec cat"))
    seen = [_states(launcher)]

    job.send_signal(signal.SIGSTOP)
    _await(job.pid, os.WSTOPPED)
    seen.append(_states(launcher))

    assert seen == [("running", []), ("stopped", [])]


@pytest.mark.parametrize("flags", [(), ("--report",)])
def test_run_json_names_the_first_process_for_good(
    launcher: Launcher, start: Start, flags: tuple[str, ...]
) -> None:
    """Its pid and when that started, which exec keeps: also where we stay beside the job."""
    start(*flags)

    (run,) = launcher.runs()
    manifest = json.loads((run / "run.json").read_text())
    (process,) = (json.loads(path.read_text()) for path in run.glob("*/*/process.json"))
    assert manifest["pid_started_ticks"] == started_ticks(manifest["pid"])
    assert {name: manifest[name] for name in ("pid", "pid_started_ticks", "pid_namespace")} == {
        name: process[name] for name in ("pid", "pid_started_ticks", "pid_namespace")
    }


def test_a_pid_that_another_program_has_now_is_not_the_job(
    launcher: Launcher, start: Start
) -> None:
    """Recorded, killed, and its pid given to somebody else, who is left out of it."""
    job = start()
    job.kill()
    job.wait()
    (run,) = launcher.runs()

    _give_pid_to(run, os.getpid())

    assert _states(launcher) == ("killed", ["killed"])


def _give_pid_to(run: Path, pid: int) -> None:
    """Write a living pid into the manifests, as if the kernel had used the job's again."""
    for path in (run / "run.json", *run.glob("*/*/process.json")):
        path.write_text(json.dumps({**json.loads(path.read_text()), "pid": pid}))


def _state_of(launcher: Launcher, *command: str) -> str:
    """Launch a command to its end; return the first lines of the report on its run, joined."""
    run = launcher.run(*command).run
    return " ".join(launcher.tfprobe("report", run).stdout.decode().split())


@pytest.mark.parametrize(
    ("script", "words"),
    [("exit 0", "finished · started"), ("exit 3", "failed with exit status 3 · started"),
     ("kill -9 $$", "killed by SIGKILL · started")],
)  # fmt: skip
def test_a_launcher_that_stays_tells_how_any_program_ended(
    launcher: Launcher, script: str, words: str
) -> None:
    """A shell that is not recorded, for one."""
    assert words in _state_of(launcher, "--report", "--", "sh", "-c", script)


@pytest.mark.parametrize(
    "command", [("true",), ("python", "-c", "pass"), ("python", "-S", "-c", "")]
)
def test_a_run_without_tensorflow_is_unknown_for_the_right_reason(
    launcher: Launcher, command: tuple[str, ...]
) -> None:
    """Nobody saw its end; it ran on no other machine."""
    words = "state unknown: it has ended, and no recorded process shows how"

    assert words in _state_of(launcher, "--", *command)
