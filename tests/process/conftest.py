"""Fixtures: the launcher as a console script, with its own places for runs and jobs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.process.launching import ROOT, Launcher, environment
from tests.support import toy_tensorflow
from tests.support.interpreters import need_interpreter

_SCRIPT = """#!{python}
import sys
sys.path.insert(0, {root!r})
from tfprobe.cli.main import main
if __name__ == "__main__":
    sys.exit(main())
"""


_STEPPING = """
import sys
import tensorflow.python.client.session as session_module
session_module.BaseSession().run("loss")
print("stepped", flush=True)
sys.stdin.read()
"""

Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What pip would install as `tfprobe`: PYTHONPATH is not involved."""
    path = tmp_path_factory.mktemp("bin") / "tfprobe"
    path.write_text(_SCRIPT.format(python=sys.executable, root=str(ROOT)))
    path.chmod(0o755)
    return path


@pytest.fixture
def launcher(program: Path, tmp_path: Path) -> Launcher:
    """A launcher with fresh places."""
    work = tmp_path / "work"
    work.mkdir()
    return Launcher(program, tmp_path / "runs", work)


@pytest.fixture
def python() -> str:
    """The interpreter that jobs of these tests run under."""
    return sys.executable


@pytest.fixture
def python27() -> Path:
    """A Python 2.7, or skip."""
    return need_interpreter("2.7")


@pytest.fixture
def start(launcher: Launcher, python: str) -> Iterator[Start]:
    """Start a recorded job, and return once it says its first line."""
    toy_tensorflow.write(launcher.work)
    started: list[subprocess.Popen[bytes]] = []

    def begin(*flags: str, command: tuple[str, ...] = (python, "-c", _STEPPING)) -> object:
        job = subprocess.Popen(
            [launcher.program, "run", "-q", "-o", launcher.output, *flags, "--", *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=launcher.work,
            env=environment({"PYTHONPATH": str(launcher.work)}),
        )
        started.append(job)
        assert job.stdout is not None
        assert job.stdout.readline()
        return job

    yield begin  # type: ignore[misc]
    for job in started:
        job.kill()
        job.communicate()
