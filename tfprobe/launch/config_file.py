"""Find and read tfprobe.toml. Knows its place and its keys, not what they mean."""

from __future__ import annotations

import os
import sys

from tfprobe.launch.settings import VARIABLES, BadSetting

NAME = "tfprobe.toml"


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


def read(path: str) -> dict[str, object]:
    """Give the [run] table. Raises BadSetting where the file cannot be read or has unknown keys."""
    table = read_table(path, "run")
    unknown = sorted(set(table) - set(VARIABLES))
    if unknown:
        known = ", ".join(sorted(VARIABLES))
        raise BadSetting(f"{path} has {unknown[0]!r} in [run].", hint=f"Known keys: {known}.")
    return table


def read_table(path: str, name: str) -> dict[str, object]:
    """Give a table as it stands, empty where there is none.

    Raises BadSetting where the file cannot be read or has something else by this name.
    """
    table = _document(path).get(name, {})
    if not isinstance(table, dict):
        raise BadSetting(f"{path} has `{name}` as a value.", hint=f"Write a table: [{name}].")
    return table


def _document(path: str) -> dict[str, object]:
    # Imported here: most launches have no file, and the parser costs 10 ms.
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except (OSError, ValueError, RecursionError) as exc:
        raise BadSetting(f"{path} cannot be read: {exc}.", hint="Correct or remove it.") from exc
