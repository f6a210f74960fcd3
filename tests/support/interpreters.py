"""Other Pythons of this machine, wherever they were installed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

# Folders that hold one installation a version, as `bin/pythonX.Y` below each.
_HOMES = (
    "~/.pyenv/versions",
    "~/.local/share/uv/python",
    "~/.asdf/installs/python",
    "~/.local/share/mise/installs/python",
    "/opt/pyenv/versions",
    "/opt/python",
)


@cache
def interpreter(version: str, *modules: str) -> Path | None:
    """Return a working interpreter of a version such as "3.6" that imports `modules`, or None."""
    for path in _candidates(version):
        if works(path, version, modules):
            return path
    return None


def need_interpreter(version: str) -> Path:
    """Return an interpreter of this version; skip the test where there is none."""
    python = interpreter(version)
    if python is None:
        pytest.skip(f"no Python {version} is installed")
    return python


def python_path(version: str) -> str:
    """Return the path of an interpreter of this version, or for "this" of the running one."""
    return sys.executable if version == "this" else str(need_interpreter(version))


def works(path: Path, version: str, modules: tuple[str, ...] = ()) -> bool:
    """Say whether an interpreter runs and is of this version: a shim of pyenv may do neither."""
    lines = ["import sys", *(f"import {module}" for module in modules)]
    ask = "; ".join([*lines, "sys.stdout.write('%d.%d' % sys.version_info[:2])"])
    try:
        answer = subprocess.run([path, "-c", ask], capture_output=True, text=True, check=False)
    except OSError:
        return False
    return answer.returncode == 0 and answer.stdout == version


def _candidates(version: str) -> Iterator[Path]:
    """Yield places where such an interpreter may be, the newest patch release of a place first."""
    homes = [Path(home).expanduser() for home in _HOMES]
    if os.environ.get("PYENV_ROOT"):
        homes.insert(0, Path(os.environ["PYENV_ROOT"]) / "versions")
    for home in homes:
        paths = home.glob(f"*{version}*/bin/python{version}")
        yield from sorted(paths, key=_patch_release, reverse=True)
    for folder in os.get_exec_path():
        yield Path(folder) / f"python{version}"


def _patch_release(path: Path) -> tuple[int, ...]:
    digits = "".join(letter if letter.isdigit() else " " for letter in path.parents[1].name).split()
    return tuple(int(number) for number in digits)
