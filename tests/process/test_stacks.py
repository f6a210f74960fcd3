"""The Python stacks of real jobs are read from outside, and the job never notices."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.process.launching import ROOT, Ending, Launcher, environment
from tests.support import toy_tensorflow
from tests.support.interpreters import need_interpreter
from tfprobe.launch import ptrace

# The sampler looks five times a second; a loaded machine takes its time.
PATIENCE_S = 60

HOT = """
import sys, time
import tensorflow.python.client.session as session_module
session = session_module.BaseSession()
def spin(seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        sum(range(1000))  # hot
session.run("loss")
spin(float(sys.argv[1]))
session.run("loss")
print("done", flush=True)
print("complaint", file=sys.stderr)
sys.exit(7)
"""
HOT_LINE = HOT.splitlines().index("        sum(range(1000))  # hot") + 1


@pytest.fixture
def pyspy() -> str:
    """py-spy, on a machine that lets it read."""
    program = shutil.which("py-spy", path=str(Path(sys.executable).parent)) or shutil.which(
        "py-spy"
    )
    if program is None:
        pytest.skip("py-spy is not installed here")
    refusal = ptrace.refusal()
    if refusal is not None:
        pytest.skip(f"ptrace is forbidden here: {refusal}")
    return program


@pytest.fixture
def hot(launcher: Launcher) -> Path:
    """A program that spends its time in one line, between two steps."""
    toy_tensorflow.write(launcher.work)
    return launcher.write("hot.py", HOT)


def _environment(launcher: Launcher) -> dict[str, str | None]:
    return {"PYTHONPATH": str(launcher.work)}


def _files(launcher: Launcher) -> list[Path]:
    return sorted(launcher.output.glob("*/*/*/stacks.jsonl"))


def _wait_until_gone(launcher: Launcher) -> None:
    """Wait until no sampler and no reader of the run is there."""
    deadline = time.monotonic() + PATIENCE_S
    while (left := list(_beside(launcher))) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert left == []


def _beside(launcher: Launcher) -> Iterator[int]:
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"tfprobe.attach.sampler" in words and os.fsencode(launcher.output) in b"".join(words):
            yield int(entry.name)


def _document(launcher: Launcher, run: Path) -> dict:
    ended = launcher.tfprobe("stacks", "--json", run)
    assert (ended.status, ended.stderr) == (0, b"")
    return json.loads(ended.stdout)


def _hottest(launcher: Launcher, run: Path) -> dict:
    report = json.loads(launcher.tfprobe("report", "--json", run).stdout)
    return report["stacks"][0]["hottest"][0]


def _tfprobe_beside(folder: Path) -> list[str]:
    """Return a tfprobe whose Python lies in a folder of its own."""
    folder.mkdir()
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    code = f"""
import sys
sys.executable = {str(python)!r}
sys.path.insert(0, {str(ROOT)!r})
from tfprobe.cli.main import main
sys.exit(main())
"""
    return [sys.executable, "-c", code]


def _told(ending: Ending) -> tuple[int, bytes, bytes]:
    return ending.status, ending.stdout, ending.own_stderr


@pytest.mark.slow
def test_the_hot_line_is_found(launcher: Launcher, python: str, hot: Path, pyspy: str) -> None:
    """By function and line, as the time between two steps; the job says and ends what it does."""
    ended = launcher.run("--stacks", "--", python, hot, "3", env=_environment(launcher))

    assert _told(ended) == (7, b"done\n", b"complaint\n")
    _wait_until_gone(launcher)
    hottest = _hottest(launcher, ended.run)
    assert hottest["line"] == {"function": "spin", "file": str(hot), "line": HOT_LINE}
    (process,) = _document(launcher, ended.run)["processes"]
    assert process["main_thread"]["name"] == "MainThread"
    assert process["rate_per_s"] == {"least": 20, "most": 20}
    assert process["samples"] > 0
    (main,) = [each for each in process["threads"] if each["is_main"]]
    assert sum(part["us"] for part in process["phases"]) == pytest.approx(main["us"], rel=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("version", ["3.6", "3.8", "3.10", "3.12", "3.13"])
def test_stacks_of_other_pythons(launcher: Launcher, hot: Path, pyspy: str, version: str) -> None:
    """From the oldest that is recorded to the newest."""
    python = need_interpreter(version)

    ended = launcher.run("--stacks", "--", python, hot, "2", env=_environment(launcher))

    assert _told(ended) == (7, b"done\n", b"complaint\n")
    _wait_until_gone(launcher)
    line = _hottest(launcher, ended.run)["line"]
    assert (line["function"], line["line"]) == ("spin", HOT_LINE)


def test_without_pyspy_the_job_runs_and_a_sentence_says_why(
    launcher: Launcher, hot: Path, tmp_path: Path
) -> None:
    """The job's output and status are its own."""
    command = _tfprobe_beside(tmp_path / "lonely")

    ended = launcher.bare(
        *command, "run", "--stacks", "-o", launcher.output, "--", sys.executable, hot, "0",
        env={**_environment(launcher), "PATH": "/nowhere"},
    )  # fmt: skip

    assert (ended.status, ended.stdout) == (7, b"done\n")
    sentence = (
        b"tfprobe: Stacks are not sampled: py-spy was not found; "
        b"`pip install 'tfprobe[stacks]'` installs it. The job runs without them.\n"
    )
    assert ended.own_stderr == sentence + b"complaint\n"
    assert _files(launcher) == []


@pytest.mark.slow
def test_a_reader_that_fails_is_told_and_the_job_runs_on(
    launcher: Launcher, python: str, hot: Path, tmp_path: Path
) -> None:
    """As in a container whose kernel refuses: what py-spy said is in the report."""
    if ptrace.refusal() is not None:
        pytest.skip(f"ptrace is forbidden here: {ptrace.refusal()}")
    command = _tfprobe_beside(tmp_path / "bin")
    fake = tmp_path / "bin" / "py-spy"
    fake.write_text("#!/bin/sh\necho 'Error: Permission denied' >&2\nexit 1\n")
    fake.chmod(0o755)

    ended = launcher.bare(
        *command, "run", "--stacks", "-o", launcher.output, "--", python, hot, "6",
        env=_environment(launcher),
    )  # fmt: skip

    assert _told(ended) == (7, b"done\n", b"complaint\n")
    _wait_until_gone(launcher)
    shown = launcher.tfprobe("stacks", ended.run)
    assert shown.status == 1
    assert b"py-spy: Permission denied" in shown.stderr
    assert (
        b"stacks: none; py-spy: Permission denied" in launcher.tfprobe("report", ended.run).stdout
    )


@pytest.mark.slow
def test_a_job_that_is_killed_keeps_its_stacks(
    launcher: Launcher, python: str, hot: Path, pyspy: str
) -> None:
    """And nothing of ours outlives it by more than seconds."""
    job = subprocess.Popen(
        [launcher.program, "run", "-q", "--stacks", "-o", launcher.output, "--", python, hot, "60"],
        cwd=launcher.work,
        env=environment(_environment(launcher)),
        stdout=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + PATIENCE_S
    while not _files(launcher) and time.monotonic() < deadline:
        time.sleep(0.1)
    job.send_signal(signal.SIGKILL)
    job.wait()

    _wait_until_gone(launcher)
    (run,) = launcher.runs()
    assert _hottest(launcher, run)["line"]["line"] == HOT_LINE


FORKING = """
import os, sys, time
import tensorflow.python.client.session as session_module
session = session_module.BaseSession()
def child():
    until = time.monotonic() + 4
    while time.monotonic() < until:
        session.run("loss")
        sum(range(2000))
def parent():
    os.waitpid(pid, 0)
session.run("loss")
pid = os.fork()
if pid == 0:
    child()
    os._exit(0)
parent()
"""


@pytest.mark.slow
def test_forked_children_have_their_own(launcher: Launcher, python: str, pyspy: str) -> None:
    """In the folder that the child opens at its first step."""
    toy_tensorflow.write(launcher.work)
    program = launcher.write("forking.py", FORKING)

    ended = launcher.run("--stacks", "--", python, program, env=_environment(launcher))

    assert _told(ended) == (0, b"", b"")
    _wait_until_gone(launcher)
    processes = _document(launcher, ended.run)["processes"]
    assert len(processes) == 2
    assert [_deepest(each) for each in processes] == ["parent", "child"]


def _deepest(process: dict) -> str:
    """The function of the program that its main thread was in for longest."""
    (main,) = [each for each in process["threads"] if each["is_main"]]
    module = max(main["calls"], key=lambda call: call["us"])
    return max(module["calls"], key=lambda call: call["us"])["function"]


REPLACED = """
import os, sys, time
import tensorflow.python.client.session as session_module
session_module.BaseSession().run("loss")
def spin_{name}():
    until = time.monotonic() + 3
    while time.monotonic() < until:
        pass
spin_{name}()
{more}
"""


@pytest.mark.slow
def test_a_process_that_replaces_itself_is_read_on(
    launcher: Launcher, python: str, pyspy: str
) -> None:
    """The same pid, another interpreter, another folder."""
    toy_tensorflow.write(launcher.work)
    second = launcher.write("second.py", REPLACED.format(name="second", more=""))
    more = f"os.execv({python!r}, [{python!r}, {str(second)!r}])"
    first = launcher.write("first.py", REPLACED.format(name="first", more=more))

    ended = launcher.run("--stacks", "--", python, first, env=_environment(launcher))

    assert _told(ended) == (0, b"", b"")
    _wait_until_gone(launcher)
    processes = _document(launcher, ended.run)["processes"]
    assert [_deepest(each) for each in processes] == ["spin_first", "spin_second"]


@pytest.mark.slow
def test_a_job_has_no_child_it_did_not_make(launcher: Launcher, python: str, pyspy: str) -> None:
    """It may wait for all of its children."""
    code = "import os\ntry:\n  os.waitpid(-1, 0)\nexcept ChildProcessError:\n  print('no child')"

    ended = launcher.run("--stacks", "--", python, "-c", code)

    assert _told(ended) == (0, b"no child\n", b"")
    _wait_until_gone(launcher)


@pytest.mark.slow
def test_a_report_at_the_end_has_the_last_stacks(
    launcher: Launcher, python: str, hot: Path, pyspy: str
) -> None:
    """They are written within a second of the job's end, for which --report waits."""
    ended = launcher.run("--stacks", "--report", "--", python, hot, "2", env=_environment(launcher))

    assert (ended.status, ended.stdout) == (7, b"done\n")
    line = b" ".join(ended.stderr.split(b"stacks: ")[1].split())
    assert b"a second; hottest: " in line
    assert f"hot.py:{HOT_LINE}".encode() in line


@pytest.mark.slow
def test_launches_that_share_a_run_have_each_their_own(
    launcher: Launcher, python: str, hot: Path, pyspy: str
) -> None:
    """A sampler reads what its launch started, and nothing of the others."""
    command = [launcher.program, "run", "-q", "--join", "both", "--stacks", "-o", launcher.output]
    env = environment(_environment(launcher))
    jobs = [
        subprocess.Popen(
            [*command, "--", python, hot, "3"],
            cwd=launcher.work,
            env={**env, "RANK": str(rank), "WORLD_SIZE": "2"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for rank in (0, 1)
    ]

    assert [job.wait() for job in jobs] == [7, 7]
    _wait_until_gone(launcher)
    (run,) = launcher.runs()
    processes = _document(launcher, run)["processes"]
    assert len(processes) == 2
    assert [process["samples"] > 0 for process in processes] == [True, True]
    # Nobody read a process twice: its chunks follow each other.
    for path in _files(launcher):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        assert sum(line["frames_from"] == 0 for line in lines) == 1
