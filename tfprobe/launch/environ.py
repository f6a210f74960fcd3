"""Read our own environment and place; every other function takes them as arguments."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

# CPython started in the C locale sets LC_CTYPE for itself (PEP 538). The job must not inherit that.
_COERCED = "LC_CTYPE"
# In place of a working directory that was deleted under us: below a file not even root makes one.
NOWHERE = "/dev/null"


def inherited() -> dict[str, str]:
    """Give the environment this process was started with."""
    environment = dict(os.environ)
    given = _given_value(_COERCED)
    if given is None:
        environment.pop(_COERCED, None)
    elif given != "":
        environment[_COERCED] = given
    return environment


def working_directory() -> str:
    """Return where we are; NOWHERE if that directory is gone. Absolute paths work anyway."""
    try:
        return os.getcwd()
    except OSError:
        return NOWHERE


def cache_home() -> Path:
    """Return the directory of the user's caches, as the XDG base directory specification has it."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    return Path(given) if os.path.isabs(given) else Path(os.path.expanduser("~"), ".cache")


def default_run(fallback: str) -> str:
    """Return the RUN of commands that are given none: TFPROBE_RUN, or else the fallback."""
    return os.environ.get("TFPROBE_RUN") or fallback


def set_defaults(variables: Mapping[str, str]) -> None:
    """Set variables that are not set, for a library that takes settings in no other way."""
    for name, value in variables.items():
        os.environ.setdefault(name, value)


def absolute(path: Path) -> Path:
    """Return where a path leads from here."""
    return Path(working_directory(), path)


def _given_value(name: str) -> str | None:
    """Read a variable as it was at exec time: None if it was not set, "" if that is unknown."""
    try:
        with open("/proc/self/environ", "rb") as block:
            entries = block.read().split(b"\0")
    except OSError:
        return ""
    prefix = os.fsencode(name) + b"="
    for entry in entries:
        if entry.startswith(prefix):
            return os.fsdecode(entry[len(prefix) :])
    return None
