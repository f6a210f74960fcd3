"""`tfprobe try` on jobs that cannot be tried: one paragraph each, and nothing is touched."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.process.launching import PATIENCE_S, Ending, Launcher, environment

FAILS = "open('new.txt', 'w').write('new'); raise SystemExit(3)"
CACHES = "import os, sys; sys.exit(os.environ['TORCHINDUCTOR_CACHE_DIR'])"
FORKS = "import os; os.fork(); print('twice')"


def tried(launcher: Launcher, *arguments: str) -> Ending:
    return launcher.tfprobe("try", "-o", str(launcher.output), *arguments)


def python(code: str) -> tuple[str, ...]:
    return ("--", sys.executable, "-c", code)


@pytest.mark.parametrize(
    ("arguments", "status", "why"),
    [
        (("--yes", "threads", *python(FAILS)), 1, "The base failed: .* exit status 3"),
        (("--yes", "threads", *python("input()")), 1, "EOFError"),
        (("--yes", "threads", *python("import os; os.kill(os.getpid(), 9)")), 1, "signal 9"),
        (("--yes", "threads", *python(FORKS)), 1, "counted no steps"),
        (("--yes", "threads", "--", "/bin/true"), 1, "counted no steps"),
        (("--yes", "threads", "--", "no-such-program"), 127, "command not found"),
        (("threads", *python("pass")), 2, "Add --yes"),
        (("--yes", "threads"), 2, "No command was given"),
        (("--yes", "faster", *python("pass")), 2, "There is no fix faster"),
        (
            ("--yes", "--budget", "soon", "threads", *python("pass")),
            2,
            "--budget.*use an age such as 90s",
        ),
        (("--yes", "--delay", "input", *python(FAILS)), 1, "The base failed: .* exit status 3"),
        (("--yes", "--delay", "input", "threads", *python("pass")), 2, "a FIX was given, too"),
        (("--yes", "--delay", "it", *python("pass")), 2, "between"),
        (("--yes", "--steps", "3", "threads", *python("pass")), 2, "--steps"),
    ],
)
def test_what_cannot_be_tried_is_told_in_a_paragraph(launcher, arguments, status, why) -> None:
    """With the status and the last words of the job, if it is to blame; never with a traceback."""
    (launcher.work / "kept.txt").write_text("kept")

    ended = tried(launcher, *arguments)

    said = ended.stderr.decode()
    assert ended.status == status, said
    assert_said(said, why)
    assert "This is a bug" not in said
    assert {path.name for path in launcher.work.iterdir()} == {"kept.txt"}


def assert_said(text: str, why: str) -> None:
    assert re.search(why, " ".join(text.split())), text


def test_the_fixes_are_listed_without_a_job(launcher) -> None:
    """With what each does to the results of a job."""
    ended = tried(launcher, "--list")

    assert ended.status == 0
    assert "steps_per_execution=16  identical" in ended.stdout.decode()


def test_modules_of_the_job_are_not_taken_for_ours(launcher) -> None:
    """A job may have a file called json.py."""
    launcher.write("json.py", "raise RuntimeError('not this one')")

    ended = tried(launcher, "--yes", "threads", *python("print('done')"))

    assert_said(ended.stderr.decode(), "counted no steps")


def test_a_process_has_caches_of_compiled_programs_for_itself(launcher) -> None:
    """Whatever the user has set: no arm is warm because another one was."""
    shared = {"TORCHINDUCTOR_CACHE_DIR": "/shared"}

    ended = launcher.tfprobe("try", "--yes", "threads", *python(CACHES), env=shared)

    assert_said(ended.stderr.decode(), r"/tfprobe-try-[^/]*/001-base/inductor\b")


def test_nothing_remains_of_a_trial(launcher, tmp_path) -> None:
    """The directory for what the job wrote is removed."""
    temporary = {"TMPDIR": str(tmp_path)}

    ended = launcher.tfprobe("try", "--yes", "threads", *python(FAILS), env=temporary)

    assert ended.status == 1
    assert list(Path(tmp_path).glob("tfprobe-try-*")) == []


# What it writes to a file nobody else would see. Its child is in no group of ours.
SLEEPS = (
    "import os, socket, subprocess, sys, time; "
    "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(900)'], "
    "start_new_session=True); "
    "server = socket.create_connection(('127.0.0.1', {port})); "
    "server.sendall(b'%d %d' % (os.getpid(), child.pid)); server.close(); time.sleep(900)"
)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_trial_that_is_ended_ends_the_job_and_leaves_nothing(launcher, tmp_path, number) -> None:
    """Ctrl-C in the shell, or the end of a batch job."""
    env = environment({"TMPDIR": str(tmp_path)})
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(PATIENCE_S)
        job = python(SLEEPS.format(port=server.getsockname()[1]))
        command = [launcher.program, "try", "--yes", "threads", *job]
        trial = subprocess.Popen(command, cwd=launcher.work, env=env, stderr=subprocess.PIPE)
        try:
            with server.accept()[0] as started, started.makefile() as words:
                pids = words.read().split()
            trial.send_signal(number)
            _, said = trial.communicate(timeout=PATIENCE_S)
        finally:
            trial.kill()

    assert trial.returncode in (130, -number)
    assert b"Traceback" not in said
    assert len(pids) == 2
    assert not any(map(runs, pids))
    assert list(tmp_path.glob("tfprobe-try-*")) == []


def runs(pid: str) -> bool:
    """Say whether a process runs; one that nobody has waited for yet does not."""
    try:
        return Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
