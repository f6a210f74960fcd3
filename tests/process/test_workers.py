"""Where others read, the answer stays the same, and mistakes are a paragraph."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.process.launching import PATIENCE_S, Ending, Launcher, environment
from tests.support.questions import write_ranks

pytestmark = pytest.mark.slow

Call = Callable[..., Ending]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of nine processes."""
    return write_ranks(tmp_path / "run", 9)


@pytest.fixture
def fresh(launcher: Launcher, run: Path) -> Call:
    """Ask about the run with nothing kept of it."""

    def call(command: str, *arguments: str) -> Ending:
        subprocess.run(["rm", "-rf", run / "derived"], check=True)
        return launcher.tfprobe(command, run, *arguments)

    return call


@pytest.fixture
def dask() -> None:
    """Skip where there is no Dask; a build that promises to test it fails."""
    if os.environ.get("CI") != "true":
        pytest.importorskip("distributed", reason="there is no Dask here")


@pytest.mark.parametrize("command", ["report", "advise"])
def test_workers_print_what_one_process_prints(fresh, command):
    """--workers 2 prints the very document that --workers 1 prints."""
    alone = fresh(command, "--json", "--workers", "1")

    together = fresh(command, "--json", "--workers", "2")

    assert (together.status, together.stderr) == (0, b"")
    assert together.stdout == alone.stdout
    assert json.loads(alone.stdout)["schema"] == f"tfprobe.{command}/1"


def test_a_cluster_prints_what_one_process_prints(fresh, dask):
    """--dask local prints the very document too, and nothing of Dask's on stderr."""
    alone = fresh("report", "--json", "--workers", "1")

    together = fresh("report", "--json", "--workers", "2", "--dask", "local")

    assert (together.status, together.stderr) == (0, b"")
    assert together.stdout == alone.stdout


def test_a_cluster_of_this_machine_leaves_nothing_behind(launcher, run, tmp_path, dask):
    """Neither where the command runs nor where its workers put what does not fit in memory."""
    place, temporary = set(launcher.work.iterdir()), tmp_path / "temporary"
    temporary.mkdir()

    told = launcher.tfprobe(
        "report", run, "--workers", "2", "--dask", "local", env={"TMPDIR": str(temporary)}
    )

    assert told.status == 0
    assert [*temporary.iterdir()] == []
    assert set(launcher.work.iterdir()) == place


def test_what_is_kept_is_printed_again(fresh, launcher, run):
    """The second report is the first, byte for byte, whoever made that."""
    first = fresh("report", "--json", "--workers", "2")

    again = launcher.tfprobe("report", run, "--json")

    assert again.stdout == first.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--workers", "0"), b"0 is not in the range x>=1"),
        (("--workers", "2", "--dask", "tcp://127.0.0.1:1"), b"cannot be combined"),
        (("--workers", "2", "--html", "/dev/null"), b"cannot be combined"),
        (("--dask", "nonsense"), b"No Dask scheduler answers at nonsense"),
    ],
)
def test_what_cannot_be_done_is_one_paragraph(fresh, dask, arguments, words):
    """A wrong option says what is wrong, with status 2 and without a traceback."""
    ending = fresh("report", *arguments)

    assert (ending.status, ending.stderr.count(b"\n")) == (2, 1)
    assert words in ending.stderr


@pytest.fixture
def scheduler(tmp_path: Path, dask: None) -> Iterator[str]:
    """Give the address of a scheduler without workers."""
    with _started("scheduler", "--port", "0", "--host", "127.0.0.1", "--no-dashboard") as process:
        yield _address(process, rb"Scheduler at:\s+(tcp://\S+)")


def _started(*arguments: str, **more: str) -> _Ended:
    command = [sys.executable, "-m", "dask", *arguments]
    # Not here: `python -m` finds the tfprobe of this directory first.
    process = subprocess.Popen(command, stderr=subprocess.PIPE, env=environment(more), cwd="/")
    return _Ended(process)


class _Ended:
    """A process that is killed when it is left."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def __enter__(self) -> subprocess.Popen[bytes]:
        return self._process

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate(timeout=PATIENCE_S)


def _address(process: subprocess.Popen[bytes], pattern: bytes) -> str:
    assert process.stderr is not None
    for line in process.stderr:
        found = re.search(pattern, line)
        if found:
            return found[1].decode()
    raise AssertionError("it ended without a word")


def test_a_worker_of_another_version_is_named(fresh, scheduler, tmp_path):
    """A cluster whose workers have another tfprobe does not answer, and says which one has."""
    other = tmp_path / "other" / "tfprobe"
    other.mkdir(parents=True)
    (other / "__init__.py").write_text("__version__ = '0.0.7'\n")
    path = {"PYTHONPATH": os.fspath(other.parent)}
    with _started("worker", scheduler, "--nworkers", "1", "--no-dashboard", **path) as worker:
        _address(worker, rb"Registered to:\s+(tcp://\S+)")

        ending = fresh("report", "--dask", scheduler)

    assert ending.status == 2
    assert re.search(
        rb"Worker tcp://\S+ of the Dask cluster has tfprobe 0\.0\.7, and this is", ending.stderr
    )


def test_ctrl_c_ends_the_workers(launcher, tmp_path):
    """Interrupted, the command ends with status 130, without a traceback, and leaves no process."""
    run = write_ranks(tmp_path / "large", 100)
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        [launcher.program, "report", run, "--workers", "2", "--json"],
        env=environment({"TERM": "xterm"}),
        stdout=subprocess.PIPE,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    told = os.read(ours, 1024)
    os.killpg(process.pid, signal.SIGINT)

    stdout, _ = process.communicate(timeout=PATIENCE_S)

    assert (process.returncode, stdout) == (130, b"")
    assert b"Traceback" not in told + _rest(ours)
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


def _rest(terminal: int) -> bytes:
    """Return what is still to read of a terminal that nobody writes to any more."""
    parts = []
    try:
        while part := os.read(terminal, 1024):
            parts.append(part)
    except OSError:
        pass  # so Linux tells that the other side is closed
    os.close(terminal)
    return b"".join(parts)
