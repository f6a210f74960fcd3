"""Check that only this user and root can write the files that decide what a job runs.

A tfprobe.toml chooses the output directory, and the job loads code from below it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from tfprobe.runs.layout import TEMPORARY_PREFIX

_ROOT = 0


def file_problem(path: str, facts: os.stat_result, environment: Mapping[str, str]) -> str | None:
    """Return why a settings file, opened with these facts, is not to be trusted; None if it is.

    A link matters as much as its target: whoever owns it chooses where it leads.
    """
    owners = {os.lstat(path).st_uid, facts.st_uid} - trusted(environment)
    if owners and not _is_mapped(Path(path).parent, owners):
        return f"belongs to {_users(owners)}"
    return "can be written by other users" if _others_write(facts) else None


def directory_problem(directory: str, environment: Mapping[str, str]) -> str | None:
    """Return why the directory of all runs is not to be trusted; None if it is.

    The owners of its parent directories are not checked: a container's root works below directories
    of a user of the host, and whoever owns the location of a program can change the program itself.
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
    """Return the directory, or a parent of it, whose entries other users can replace."""
    real = Path(os.path.realpath(directory))
    for path in (real, *real.parents):
        facts = os.stat(path)
        if _others_write(facts) and not facts.st_mode & stat.S_ISVTX:
            return path
    return None


def trusted(environment: Mapping[str, str]) -> set[int]:
    """Return the users whose files are trusted like ours, including who became root by sudo."""
    user = os.geteuid()
    before = environment.get("SUDO_UID", "")
    is_sudo = user == _ROOT and before.isascii() and before.isdigit() and len(before) < 11
    return {user, _ROOT, int(before)} if is_sudo else {user, _ROOT}


def owner(path: Path) -> int:
    """Return the owner of a path; for a link, of the link itself. Raises OSError."""
    return path.lstat().st_uid


def owner_of_new(directory: Path) -> int:
    """Return the owner of what this user creates there: a file server may map all users to one.

    Raises OSError if nothing can be created.
    """
    place = directory / f"{TEMPORARY_PREFIX}{os.urandom(4).hex()}"
    place.mkdir(0o700)
    try:
        return owner(place)
    finally:
        place.rmdir()


def _is_mapped(directory: Path, owners: set[int]) -> bool:
    """Return whether a file server maps this user to one of these owners."""
    try:
        return owners == {owner_of_new(directory)}
    except OSError:
        return False


def _others_write(facts: os.stat_result) -> bool:
    if facts.st_mode & stat.S_IWOTH:
        return True
    return bool(facts.st_mode & stat.S_IWGRP) and not _is_private_group(facts.st_gid)


def _is_private_group(number: int) -> bool:
    """Return whether this user is the only member of a group; most systems create one per user."""
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
