"""Find and read tfprobe.toml. Knows its place, its owner and its keys, not what they mean."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from tfprobe.launch import ownership
from tfprobe.launch.settings import VARIABLES, BadSetting

NAME = "tfprobe.toml"
# Names the file to read; one that is named so may be anybody's.
VARIABLE = "TFPROBE_CONFIG"


@dataclass(frozen=True, slots=True)
class Found:
    """The file to read, and the environment by which its owner is judged; None where it is not."""

    path: str
    judged_by: Mapping[str, str] | None


def choose(cwd: str, environment: Mapping[str, str]) -> Found | None:
    """Return the file that TFPROBE_CONFIG names, or the nearest one, or None."""
    named = environment.get(VARIABLE)
    if named:
        return Found(os.path.join(cwd, os.path.expanduser(named)), None)
    path = find(cwd)
    return None if path is None else Found(path, environment)


def find(cwd: str) -> str | None:
    """Look for tfprobe.toml in `cwd` and then in each parent."""
    folder = cwd
    while True:
        path = os.path.join(folder, NAME)
        if os.path.isfile(path):
            return path
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent


def read(file: Found) -> dict[str, object]:
    """Give the [run] table.

    Raises BadSetting where the file is another user's, cannot be read or has unknown keys.
    """
    table = read_table(file, "run")
    unknown = sorted(set(table) - set(VARIABLES))
    if unknown:
        known = ", ".join(sorted(VARIABLES))
        raise BadSetting(f"{file.path} has {unknown[0]!r} in [run].", hint=f"Known keys: {known}.")
    return table


def read_table(file: Found, name: str) -> dict[str, object]:
    """Give a table as it stands, empty where there is none.

    Raises BadSetting where the file is another user's, cannot be read or has something else by
    this name.
    """
    table = _document(file).get(name, {})
    if not isinstance(table, dict):
        raise BadSetting(f"{file.path} has `{name}` as a value.", hint=f"Write a table: [{name}].")
    return table


def _document(found: Found) -> dict[str, object]:
    # Imported here: most launches have no file, and the parser costs 10 ms.
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    path = found.path
    try:
        with open(path, "rb") as file:
            _refuse_others(found, os.fstat(file.fileno()))
            return tomllib.load(file)
    except (OSError, ValueError, RecursionError) as exc:
        raise BadSetting(f"{path} cannot be read: {exc}.", hint="Correct or remove it.") from exc


def _refuse_others(file: Found, facts: os.stat_result) -> None:
    if file.judged_by is None:
        return
    problem = ownership.file_problem(file.path, facts, file.judged_by)
    if problem is not None:
        hint = f"Set {VARIABLE} to this path to use it, or to /dev/null to ignore it."
        raise BadSetting(f"{file.path} is not used: it {problem}.", hint=hint)
