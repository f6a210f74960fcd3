"""The child's PYTHONPATH: our boot directory first, everything of the user's as it was."""

from __future__ import annotations

import os

# What makes a directory one of ours, whoever wrote it: all three must be there.
BOOT_MARKS = ("config.json", "sitecustomize.py", "tfprobe_agent")


def with_boot(boot: str, inherited: str | None) -> str:
    """Put `boot` before the inherited entries, dropping boot directories of outer launches.

    An empty element means the current directory to Python, so those of the user stay and none is
    added; an empty variable means the same as none.
    """
    entries = inherited.split(os.pathsep) if inherited else []
    kept = [entry for entry in entries if not is_boot(entry)]
    return os.pathsep.join([boot, *kept])


def is_boot(entry: str) -> bool:
    """Tell whether a PYTHONPATH entry is the boot directory of some run."""
    return entry != "" and all(os.path.exists(os.path.join(entry, mark)) for mark in BOOT_MARKS)
