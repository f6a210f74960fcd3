"""Write the boot directory: a copy of the agent that needs nothing else on the job's machine."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from tfprobe.runs.agent_files import AGENT, ENTRY, hooks_dir
from tfprobe.runs.layout import TEMPORARY_PREFIX, RunFolder

# The agent's entry again: what `site` looks for after it, where another sitecustomize was first.
_SECOND_ENTRY = "usercustomize.py"


def write(run: RunFolder, config: Mapping[str, object]) -> None:
    """Create the boot directory with the agent and its config.json. Raises OSError."""
    hooks = hooks_dir()
    run.boot.mkdir(0o700)
    _copy_tree(hooks / AGENT, run.boot / AGENT)
    write_file(run.config, (json.dumps(config) + "\n").encode())
    _copy_file(hooks / ENTRY, run.boot / _SECOND_ENTRY)
    _copy_file(hooks / ENTRY, run.boot / ENTRY)


def write_file(path: Path, content: bytes) -> None:
    """Write a private file so that a reader sees all of it or nothing. Raises OSError."""
    temporary = path.with_name(TEMPORARY_PREFIX + path.name)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    os.rename(temporary, path)


def _copy_tree(source: Path, target: Path) -> None:
    target.mkdir(0o700)
    for entry in source.iterdir():
        if entry.suffix == ".py":
            _copy_file(entry, target / entry.name)
        elif entry.is_dir() and entry.name != "__pycache__":
            _copy_tree(entry, target / entry.name)


def _copy_file(source: Path, target: Path) -> None:
    write_file(target, source.read_bytes())
