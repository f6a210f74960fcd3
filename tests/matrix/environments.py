"""Find interpreters and keep one environment for each cell in the cache. Knows nothing of tests."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from tests.matrix.cells import Cell
from tests.support.interpreters import interpreter, works


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
        if done.exists() and done.read_text() == _fingerprint(cell) and works(python, cell.python):
            return python
        if not works(python, cell.python):
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
    python = interpreter(cell.python, "venv", "ensurepip")
    if python is None:
        raise Unavailable(f"no Python {cell.python} that can make environments is installed")
    shutil.rmtree(folder, ignore_errors=True)
    _call(str(python), "-m", "venv", str(folder))


def _install(python: Path, wanted: tuple[str, ...]) -> None:
    # Most modules of a framework are never imported: to compile them all takes as long as the rest.
    if wanted:
        _call(str(python), "-m", "pip", "install", "--quiet", "--no-input", "--no-compile",
              "--upgrade-strategy", "only-if-needed", *wanted)  # fmt: skip


def _call(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        last = (done.stderr or done.stdout).strip().split("\n")[-1]
        raise Unavailable(f"{' '.join(command[1:4])} failed: {last}")


def _fingerprint(cell: Cell) -> str:
    wanted = "\n".join((cell.python, *cell.first, *cell.requirements))
    return hashlib.sha256(wanted.encode()).hexdigest() + "\n"
