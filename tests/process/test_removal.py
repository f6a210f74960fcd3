"""Real jobs and `tfprobe rm`: what lives stays, what is asked on a terminal, what orphans hold."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys

import pytest

from tests.process.conftest import Start
from tests.process.launching import PATIENCE_S, Launcher, environment


@pytest.mark.parametrize("command", [("rm",), ("gc", "--older", "1s")])
def test_a_running_job_keeps_its_run_until_it_ends(
    launcher: Launcher, start: Start, command: tuple[str, ...]
) -> None:
    """Even with --force; and once it was killed it goes."""
    job = start()
    (run,) = launcher.runs()
    target = run if command[0] == "rm" else launcher.output

    while_running = launcher.tfprobe(*command, target, "--yes", "--force")
    is_there = run.joinpath("run.json").exists()
    job.kill()
    job.wait()
    gone = launcher.tfprobe("rm", run, "--yes")

    assert (while_running.status, is_there) == (1 if command[0] == "rm" else 0, True)
    assert (gone.status, gone.lines()[0].split(",")[0]) == (0, "Removed 1 run")
    assert launcher.runs() == []


def test_a_child_that_outlives_its_job_holds_the_run(launcher: Launcher) -> None:
    """It has the boot directory on its path, and may import TensorFlow any moment."""
    ended = launcher.run("--", "sh", "-c", "sleep 600 >/dev/null 2>&1 & echo $!")
    orphan = int(ended.stdout)

    while_there = launcher.tfprobe("rm", ended.run, "--yes", "--force")
    os.kill(orphan, 9)
    _await_end(orphan)
    afterwards = launcher.tfprobe("rm", ended.run, "--yes")

    assert while_there.status == 1
    assert f"has still a process: pid {orphan} (sleep)" in while_there.stderr.decode()
    assert (afterwards.status, launcher.runs()) == (0, [])


def test_a_run_that_recorded_nothing_is_removed_without_force(launcher: Launcher) -> None:
    """Its only process was its first, which is known to be gone."""
    ended = launcher.run("--", "true")

    removed = launcher.tfprobe("gc", "--keep", "1", launcher.output, "--yes")
    named = launcher.tfprobe("rm", ended.run, "--yes")

    assert (removed.status, removed.lines()) == (0, ["Nothing to remove."])
    assert (named.status, launcher.runs()) == (0, [])


@pytest.mark.parametrize(("answer", "is_gone"), [("y", True), ("n", False), ("", False)])
def test_a_terminal_is_asked(launcher: Launcher, answer: str, is_gone: bool) -> None:
    """Enter alone means no."""
    ended = launcher.run("--", "true")

    status, said = _on_terminal(launcher, ["rm", str(ended.run)], answer)

    assert f"Remove {ended.run.name}, " in said
    assert (status, ended.run.exists()) == ((0, False) if is_gone else (1, True))


def _on_terminal(launcher: Launcher, arguments: list[str], answer: str) -> tuple[int, str]:
    """Run the program on a terminal of its own and type one line."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, launcher.program, *arguments],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        cwd=launcher.work,
        env=environment({"COLUMNS": "200"}),
    )
    os.close(slave)
    os.write(master, f"{answer}\n".encode())
    said = _until_closed(master)
    os.close(master)
    return process.wait(PATIENCE_S), said


def _until_closed(terminal: int) -> str:
    said = b""
    while True:
        try:
            more = os.read(terminal, 4096)
        except OSError:
            more = b""  # what Linux says when the last writer has gone
        if not more:
            return said.decode()
        said += more


def _await_end(pid: int) -> None:
    """Wait until a process that is no child of ours has ended."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    # Readable once the process has ended, whoever reaps it.
    assert select.select([descriptor], [], [], PATIENCE_S)[0]
    os.close(descriptor)
