"""Fixtures: the launcher as a console script, with its own places for runs and jobs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.process.launching import ROOT, Launcher, interpreter

_SCRIPT = """#!{python}
import sys
sys.path.insert(0, {root!r})
from tfprobe.cli.main import main
if __name__ == "__main__":
    sys.exit(main())
"""


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
    found = interpreter("2.7")
    if found is None:
        pytest.skip("no Python 2.7 under ~/.pyenv")
    return found
