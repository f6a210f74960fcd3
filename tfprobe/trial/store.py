"""Keep the documents of trials beside the runs, where `runs.trials` finds them again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tfprobe.launch.prepare import command_name, run_id
from tfprobe.runs import agent_files, safe_files
from tfprobe.runs.layout import TRIALS


def save(document: Mapping[str, Any], output: Path, now_ns: int) -> Path:
    """Write a trial's document below the directory of all runs; return its path. Raises OSError."""
    folder = output / TRIALS
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    masked = {**document, "command": agent_files.mask_arguments(document["command"])}
    path = folder / f"{run_id(command_name(masked['command']), now_ns)}.json"
    with safe_files.replacing(path) as file:
        file.write((json.dumps(masked, indent=1) + "\n").encode())
    return path
