"""How a command ends is how `tfprobe run` ends, whether it became the command or stayed."""

from __future__ import annotations

import io
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.process.launching import PATIENCE_S, ROOT, Launcher, environment

WAYS = pytest.mark.parametrize("way", [(), ("--report",)], ids=["become", "report"])


@WAYS
@pytest.mark.parametrize("status", [0, 1, 3, 126, 255])
def test_exit_status_is_the_commands_own(launcher: Launcher, way, status) -> None:
    """tfprobe run ends with whatever status the command ended with."""
    assert launcher.run(*way, "--", "sh", "-c", f"exit {status}").status == status


@WAYS
@pytest.mark.parametrize("name", ["SIGTERM", "SIGKILL", "SIGINT", "SIGSEGV", "SIGPIPE", "SIGUSR1"])
def test_death_by_a_signal_is_mirrored(launcher: Launcher, way, name) -> None:
    """Who waits for tfprobe sees the same signal, so a shell says 128 + n."""
    number = getattr(signal, name)

    ended = launcher.run(*way, "--", "sh", "-c", f"kill -{number:d} $$")

    assert ended.status == -number


@WAYS
@pytest.mark.parametrize(
    ("command", "status", "words"),
    [
        ("no-such-command", 127, "no-such-command: command not found"),
        ("./no-such-file", 127, "./no-such-file: No such file or directory"),
        ("./not-executable", 126, "./not-executable: Permission denied"),
        ("./", 126, "./: Is a directory"),
        ("./lost-interpreter", 127, "./lost-interpreter: cannot execute: required file not found"),
        ("./foreign", 126, "./foreign: cannot execute binary file: Exec format error"),
    ],
)
def test_what_cannot_run_ends_as_in_a_shell(
    launcher: Launcher, way, command, status, words
) -> None:
    """127 for what is not there, 126 for what will not run; one line says which; no run is left."""
    launcher.write("not-executable", "echo hello\n")
    launcher.write("lost-interpreter", "#!/no/such/interpreter\n", mode=0o755)
    launcher.write("foreign", "\x7fELF\0\0\0\0", mode=0o755)

    ended = launcher.run("-q", *way, "--", command)

    assert ended.status == status
    assert ended.stderr.decode().splitlines()[0] == f"tfprobe: {words}"
    assert ended.stdout == b""
    assert launcher.runs() == []


def test_a_script_without_shebang_gets_its_arguments(launcher: Launcher) -> None:
    """The kernel refuses it, so sh runs it, as env and execvp would."""
    launcher.write("bin/job", 'echo "$0|$1|$2"\n', mode=0o755)
    path = {"PATH": f"{launcher.work}/bin:{os.environ['PATH']}"}

    ended = launcher.run("--", "job", "a b", "-c", env=path)

    assert ended.stdout.decode() == f"{launcher.work}/bin/job|a b|-c\n"


def test_the_command_keeps_the_process_id(launcher: Launcher) -> None:
    """The job is the very process that was started: pid, parent and group are unchanged."""
    with subprocess.Popen(
        [launcher.program, "run", "-o", launcher.output, "--", "sh", "-c", "echo $$ $PPID"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=launcher.work,
        env=environment({}),
    ) as process:
        said, _ = process.communicate(timeout=PATIENCE_S)

    assert said.split() == [b"%d" % process.pid, b"%d" % os.getpid()]


PATIENT = (
    "import os, signal, sys\n"
    "def answer(number, frame):\n"
    "    os.write(1, b'got %d\\n' % number)\n"
    "    sys.exit(9)\n"
    "signal.signal(int(sys.argv[1]), answer)\n"
    "os.write(1, b'ready\\n')\n"
    "signal.pause()\n"
)


@WAYS
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGINT", "SIGUSR1", "SIGUSR2", "SIGQUIT"])
def test_signals_reach_the_command(launcher: Launcher, python, way, name) -> None:
    """A signal sent to tfprobe is answered by the job, once, and the job's answer is the status."""
    number = getattr(signal, name)
    command = [python, "-c", PATIENT, str(int(number))]
    with subprocess.Popen(
        [launcher.program, "run", "-o", launcher.output, *way, "--", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=launcher.work,
        env=environment({}),
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"

        process.send_signal(number)

        assert process.stdout.read() == b"got %d\n" % number
        assert process.wait(PATIENCE_S) == 9


def test_the_job_outlives_a_killed_tfprobe(launcher: Launcher, tmp_path: Path) -> None:
    """With --report tfprobe is only a companion: the job goes on without it."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    job = f"echo ready; read line < {fifo}; echo went on with $line"
    with subprocess.Popen(
        [launcher.program, "run", "-o", launcher.output, "--report", "--", "sh", "-c", job],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=launcher.work,
        env=environment({}),
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"

        process.kill()
        assert process.wait(PATIENCE_S) == -signal.SIGKILL
        fifo.write_text("it\n")

        assert process.stdout.read() == b"went on with it\n"


def test_the_report_goes_to_stderr(launcher: Launcher) -> None:
    """stdout is the job's alone, even after its end."""
    # Wide enough for wherever the test's own directory is: a path is a line of the report.
    ended = launcher.run("--report", "--", "echo", "the job's own", env={"COLUMNS": "400"})

    assert ended.stdout == b"the job's own\n"
    assert ended.run.name.encode() in ended.own_stderr


def test_an_ignored_signal_stays_ignored(launcher: Launcher) -> None:
    """Under nohup, SIGHUP stays ignored in the job, with and without --report."""
    look = "grep SigIgn /proc/self/status"

    bare = launcher.bare("sh", "-c", f"trap '' HUP CHLD; {look}")
    became = launcher.bare("sh", "-c", f"trap '' HUP CHLD; {launcher.program} run -q -- {look}")
    watched = launcher.bare(
        "sh", "-c", f"trap '' HUP CHLD; {launcher.program} run -q --report -- {look}"
    )

    assert became.stdout == bare.stdout
    assert watched.stdout == bare.stdout
    assert watched.status == 0


COUNTING = (
    "import os, signal, sys, time\n"
    "def answer(number, frame):\n"
    "    os.write(1, b'interrupted\\n')\n"
    "signal.signal(signal.SIGINT, answer)\n"
    "os.write(1, b'ready\\n')\n"
    "sys.stdin.readline()\n"
)


@WAYS
def test_the_terminal_interrupts_the_job_once(launcher: Launcher, python, way) -> None:
    """Ctrl-C reaches the whole foreground group; it is not passed on a second time."""
    pid, terminal = pty.fork()
    if pid == 0:
        arguments = ["run", "-q", "-o", str(launcher.output), *way, "--", python, "-c", COUNTING]
        os.chdir(launcher.work)
        os.execve(launcher.program, [str(launcher.program), *arguments], environment({}))
    with open(terminal, "r+b", buffering=0) as screen:
        said = _read_until(screen, b"ready\r\n")
        screen.write(b"\x03")
        said += _read_until(screen, b"interrupted\r\n")
        screen.write(b"\n")
        # The end of the line is only read after every pending signal was answered.
        rest = _read_to_end(screen)
        _, status = os.waitpid(pid, 0)

    lines = (said + rest).splitlines()
    assert sum(line.endswith(b"interrupted") for line in lines) == 1
    assert os.waitstatus_to_exitcode(status) == 0


def _read_until(screen: io.FileIO, expected: bytes) -> bytes:
    said = b""
    while not said.endswith(expected):
        said += screen.read(1) or b""
    return said


def _read_to_end(screen: io.FileIO) -> bytes:
    said = b""
    try:
        while more := screen.read(1024):
            said += more
    except OSError:
        # Linux answers EIO once nobody holds the other side of a terminal.
        pass
    return said


@pytest.mark.parametrize(
    ("command", "status"),
    [(["ls"], 1), (["report"], 1), (["metrics", "--once"], 3), (["top", "--once"], 1)],
)
def test_a_working_directory_that_is_gone_is_no_bug(
    tmp_path: Path, command: list[str], status: int
) -> None:
    """What is asked of a place that cannot be is answered in a paragraph."""
    done = _where_nothing_is(tmp_path, *command)

    assert done.returncode == status, done.stderr
    assert "bug" not in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr


def test_a_job_runs_where_its_directory_is_gone(tmp_path: Path) -> None:
    """Unrecorded without an absolute -o, and with one recorded; nothing is made elsewhere."""
    runs = tmp_path / "runs"

    lost = _where_nothing_is(tmp_path, "run", "--", "sh", "-c", "echo ran")
    kept = _where_nothing_is(tmp_path, "run", "-o", str(runs), "--", "sh", "-c", "echo ran")

    assert (lost.returncode, lost.stdout) == (0, "ran\n")
    assert "cannot record" in lost.stderr
    assert (kept.returncode, kept.stdout) == (0, "ran\n")
    assert len(list(runs.glob("*/run.json"))) == 1


def _where_nothing_is(tmp_path: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run tfprobe in a directory that has been removed."""
    gone = tmp_path / "gone"
    gone.mkdir()
    script = 'cd "$1" && rmdir "$1" && shift && exec "$@"'
    shell = ["sh", "-c", script, "sh", str(gone), sys.executable, "-m", "tfprobe", *command]
    env = environment({"PYTHONPATH": str(ROOT)})
    return subprocess.run(shell, env=env, capture_output=True, text=True, timeout=60, check=False)
