"""Whose files may decide what a job runs: this user's and root's, and nobody else may write them.

A tfprobe.toml chooses the output directory, and the job loads code from below that.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from tfprobe.runs.layout import TEMPORARY_PREFIX

_ROOT = 0


def file_problem(path: str, facts: os.stat_result, environment: Mapping[str, str]) -> str | None:
    """Say why a settings file, opened with these facts, is not to be trusted; None if it is.

    A link counts as much as what it leads to: who owns it chooses where it leads.
    """
    owners = {os.lstat(path).st_uid, facts.st_uid} - trusted(environment)
    if owners and not _is_mapped(Path(path).parent, owners):
        return f"belongs to {_users(owners)}"
    return "can be written by other users" if _others_write(facts) else None


def directory_problem(directory: str, environment: Mapping[str, str]) -> str | None:
    """Say why the directory of all runs is not to be trusted; None if it is.

    Who owns the directories above is not looked at: a container's root works below directories of
    a host's user, and whoever owns the place of a program can change the program itself.
    """
    ours = trusted(environment)
    real = Path(os.path.realpath(directory))
    owners = {owner(real)} - ours
    if owners and not _is_mapped(real, owners):
        return f"belongs to {_users(owners)}"
    for path in (Path(directory), *Path(directory).parents):
        owners = {os.lstat(path).st_uid} - ours
        if path.is_symlink() and owners and not _is_mapped(path.parent, owners):
            return f"is reached by {path}, a link that belongs to {_users(owners)}"
    return None


def writable_by_others(directory: str) -> Path | None:
    """Return the directory, or one above it, in which other users can replace what is there."""
    real = Path(os.path.realpath(directory))
    for path in (real, *real.parents):
        facts = os.stat(path)
        if _others_write(facts) and not facts.st_mode & stat.S_ISVTX:
            return path
    return None


def trusted(environment: Mapping[str, str]) -> set[int]:
    """Return the users whose files are as good as ours: also of who has become root by sudo."""
    user = os.geteuid()
    before = environment.get("SUDO_UID", "")
    is_sudo = user == _ROOT and before.isascii() and before.isdigit() and len(before) < 11
    return {user, _ROOT, int(before)} if is_sudo else {user, _ROOT}


def owner(path: Path) -> int:
    """Return who owns what is at a path; of a link, the link itself. Raises OSError."""
    return path.lstat().st_uid


def owner_of_new(directory: Path) -> int:
    """Return who owns what this user makes there: a file server may give all files to one user.

    Raises OSError where nothing can be made.
    """
    place = directory / f"{TEMPORARY_PREFIX}{os.urandom(4).hex()}"
    place.mkdir(0o700)
    try:
        return owner(place)
    finally:
        place.rmdir()


def _is_mapped(directory: Path, owners: set[int]) -> bool:
    """Say whether these are who a file server takes this user for."""
    try:
        return owners == {owner_of_new(directory)}
    except OSError:
        return False


def _others_write(facts: os.stat_result) -> bool:
    if facts.st_mode & stat.S_IWOTH:
        return True
    return bool(facts.st_mode & stat.S_IWGRP) and not _is_private_group(facts.st_gid)


def _is_private_group(number: int) -> bool:
    """Say whether a group is of this user alone, as most systems make one for each user."""
    import grp
    import pwd

    try:
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(number)
    except KeyError:
        return False
    is_named_so = group.gr_name == user.pw_name and user.pw_gid == number
    return is_named_so and set(group.gr_mem) <= {user.pw_name}


def _users(numbers: set[int]) -> str:
    import pwd

    names = []
    for number in sorted(numbers):
        try:
            names.append(f"user {pwd.getpwuid(number).pw_name}")
        except KeyError:
            names.append(f"user {number}")
    return " and ".join(names)
