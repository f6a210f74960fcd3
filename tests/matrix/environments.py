"""Find interpreters and keep one environment for each cell in the cache. Knows nothing of tests."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.matrix.cells import Cell


class Unavailable(Exception):
    """A cell cannot be had here; the message says why."""


def prepare(cell: Cell) -> Path:
    """Return the interpreter of the cell's environment, made or completed if need be.

    Raises Unavailable where no such Python is installed or its packages cannot be.
    """
    folder = cache() / "envs" / cell.name
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f"{cell.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        python = folder / "bin" / "python"
        done = folder / ".done"
        if done.exists() and done.read_text() == _fingerprint(cell) and _runs(str(python), cell):
            return python
        if not _runs(str(python), cell):
            _create(folder, cell)
        # Whatever is already there and fits stays; pip then asks no index.
        for wanted in (cell.first, cell.requirements):
            _install(python, wanted)
        done.write_text(_fingerprint(cell))
    return python


def cache() -> Path:
    """Return the folder that environments are kept in across checkouts."""
    named = os.environ.get("TFPROBE_CACHE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tfprobe"


def _create(folder: Path, cell: Cell) -> None:
    interpreter = next((each for each in _interpreters(cell) if _runs(each, cell)), None)
    if interpreter is None:
        raise Unavailable(f"no Python {cell.python} in pyenv or on PATH")
    shutil.rmtree(folder, ignore_errors=True)
    _call(interpreter, "-m", "venv", str(folder))


def _install(python: Path, wanted: tuple[str, ...]) -> None:
    if wanted:
        _call(str(python), "-m", "pip", "install", "--quiet", "--no-input", "--upgrade-strategy",
              "only-if-needed", *wanted)  # fmt: skip


def _call(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        last = (done.stderr or done.stdout).strip().split("\n")[-1]
        raise Unavailable(f"{' '.join(command[1:4])} failed: {last}")


def _interpreters(cell: Cell) -> Iterator[str]:
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    found = (pyenv / "versions").glob(f"{cell.python}.*/bin/python")
    yield from (str(path) for path in sorted(found, reverse=True))
    for folder in os.get_exec_path():
        yield str(Path(folder) / f"python{cell.python}")


def _runs(interpreter: str, cell: Cell) -> bool:
    """Say whether it is a working interpreter of this version: a pyenv shim may be neither."""
    ask = "import sys, venv, ensurepip; sys.stdout.write('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run([interpreter, "-c", ask], capture_output=True, text=True)
    except OSError:
        return False
    return done.returncode == 0 and done.stdout == cell.python


def _fingerprint(cell: Cell) -> str:
    wanted = "\n".join((cell.python, *cell.first, *cell.requirements))
    return hashlib.sha256(wanted.encode()).hexdigest() + "\n"
