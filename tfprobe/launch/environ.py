"""The only reader of our own environment; every other function takes it as an argument."""

from __future__ import annotations

import os

# CPython started in the C locale sets LC_CTYPE for itself (PEP 538). The job must not inherit that.
_COERCED = "LC_CTYPE"


def inherited() -> dict[str, str]:
    """Give the environment this process was started with."""
    environment = dict(os.environ)
    given = _given_value(_COERCED)
    if given is None:
        environment.pop(_COERCED, None)
    elif given != "":
        environment[_COERCED] = given
    return environment


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
