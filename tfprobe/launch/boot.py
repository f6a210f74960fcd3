"""Write the boot directory: a copy of the agent that needs nothing else on the job's machine."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import tfprobe
from tfprobe.store.layout import TEMPORARY_PREFIX, RunFolder

_HOOKS = "sitecustomize_hooks"
_ENTRY = "sitecustomize.py"
# The same file again: what `site` looks for after it, where another sitecustomize was first.
_SECOND_ENTRY = "usercustomize.py"
_AGENT = "tfprobe_agent"


def write(run: RunFolder, config: Mapping[str, object]) -> None:
    """Create the boot directory with the agent and its config.json. Raises OSError."""
    hooks = _hooks_dir()
    run.boot.mkdir(0o700)
    _copy_tree(hooks / _AGENT, run.boot / _AGENT)
    write_file(run.config, (json.dumps(config) + "\n").encode())
    _copy_file(hooks / _ENTRY, run.boot / _SECOND_ENTRY)
    _copy_file(hooks / _ENTRY, run.boot / _ENTRY)


def write_file(path: Path, content: bytes) -> None:
    """Write a private file so that a reader sees all of it or nothing. Raises OSError."""
    temporary = path.with_name(TEMPORARY_PREFIX + path.name)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    os.rename(temporary, path)


def _hooks_dir() -> Path:
    """Find the agent: inside the installed package, or beside it in a checkout."""
    package = Path(tfprobe.__file__).resolve().parent
    places = (package / _HOOKS, package.parent / _HOOKS)
    for place in places:
        if (place / _ENTRY).is_file():
            return place
    raise FileNotFoundError(2, f"the agent is missing from this installation ({places[0]})")


def _copy_tree(source: Path, target: Path) -> None:
    target.mkdir(0o700)
    for entry in source.iterdir():
        if entry.suffix == ".py":
            _copy_file(entry, target / entry.name)
        elif entry.is_dir() and entry.name != "__pycache__":
            _copy_tree(entry, target / entry.name)


def _copy_file(source: Path, target: Path) -> None:
    write_file(target, source.read_bytes())
