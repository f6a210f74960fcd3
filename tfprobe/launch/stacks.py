"""Start the sampler of `tfprobe run --stacks`, or say in a sentence why there is none."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from tfprobe.launch import leave, ptrace
from tfprobe.runs.layout import RunFolder

_INSTALL = "`pip install 'tfprobe[stacks]'` installs it"


def start(
    run: RunFolder, environment: Mapping[str, str], *, is_shared: bool
) -> tuple[dict[str, str], str]:
    """Start it; return variables for the job's children, and why there is none, or "".

    This process is about to become the job, and allows the sampler to read it.
    """
    program = find_reader(environment)
    if program is None:
        return {}, f"py-spy was not found; {_INSTALL}"
    refusal = ptrace.refusal()
    if refusal is not None:
        return {}, refusal
    pid = leave.sampler(run, environment, program, is_shared=is_shared)
    if pid is None:
        return {}, "here the sampler would become a child of the job"
    if not ptrace.needs_permission():
        return {}, ""
    ptrace.allow(pid)
    return {ptrace.VARIABLE: str(pid)}, ""


def find_reader(environment: Mapping[str, str]) -> str | None:
    """Return py-spy: the one beside our own Python, or the first on PATH."""
    path = environment.get("PATH", "")
    folders = [os.path.dirname(sys.executable), *filter(None, path.split(os.pathsep))]
    candidates = (Path(folder, "py-spy") for folder in folders)
    return next((str(each) for each in candidates if os.access(each, os.X_OK)), None)
