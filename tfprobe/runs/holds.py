"""Tell what forbids to remove a run: whoever may still write to it, and whose it is."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tfprobe.errors import Missing
from tfprobe.runs.catalogue import RunEntry, ended_unread, main_process
from tfprobe.runs.layout import RunFolder, children
from tfprobe.runs.liveness import (
    ENDED,
    LIVE,
    NANOSECONDS,
    UNKNOWN,
    Machine,
    launcher_state,
    where_it_ran,
)
from tfprobe.runs.manifests import RunManifest

# Between making the directory and writing run.json the launcher takes a fraction of a second.
STARTING_NS = 60 * NANOSECONDS
_PATH_VARIABLE = b"PYTHONPATH="

# Boot directory -> who has it on its path, in words.
Users = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Hold:
    """Why a run may not be removed, in words that follow its name.

    `may_be_forced` where nobody here can tell whether it runs: its owner may know.
    """

    why: str
    may_be_forced: bool = False


def hold(entry: RunEntry, here: Machine, users: Users, now_unix_ns: int) -> Hold | None:
    """Return what forbids to remove a run, or None: it has ended, is ours, and is whole."""
    return (
        _as_a_place(entry.folder)
        or held_by_process(entry, users, entry.folder.boot)
        or _unknown(entry, here, now_unix_ns)
    )


def held_by_process(entry: RunEntry, users: Users, boot: Path) -> Hold | None:
    """Return who still writes to a run, or may begin to: a process with its boot directory."""
    if entry.state in LIVE:
        return Hold(f"is {entry.state}")
    user = users.get(os.path.realpath(boot))
    return None if user is None else Hold(f"has still a process: {user}")


def boot_users(proc: Path) -> Users:
    """Return which boot directories are on the PYTHONPATH of a process that we may look into.

    Children of a job inherit it, so it finds those which have not imported TensorFlow yet.
    """
    found: dict[str, str] = {}
    for folder in children(proc):
        for boot in _boots(folder) if folder.name.isdigit() else ():
            found.setdefault(os.path.realpath(boot), f"pid {folder.name} ({_name(folder)})")
    return found


def _as_a_place(folder: RunFolder) -> Hold | None:
    try:
        facts = folder.root.lstat()
    except OSError:
        return Hold("is gone")
    if stat.S_ISLNK(facts.st_mode):
        return Hold(f"is a link to {os.path.realpath(folder.root)}, which has a name of its own")
    if os.geteuid() not in (0, facts.st_uid):
        return Hold(f"belongs to user {_user(facts.st_uid)}")
    inner = _inner_run(folder)
    return None if inner is None else Hold(f"holds another run, {inner}")


def _unknown(entry: RunEntry, here: Machine, now_unix_ns: int) -> Hold | None:
    """Return why nobody here can tell whether it has ended."""
    for process in entry.processes:
        if process.state == UNKNOWN and not ended_unread(process, here):
            where = f"{process.folder.host}/{process.folder.name}"
            return Hold(f"has a process that cannot be looked up here: {where}", True)
    manifest = entry.manifest
    if isinstance(manifest, Missing):
        return _without_manifest(entry, now_unix_ns)
    for launch in (manifest, *entry.launches):
        main = main_process(launch, entry.processes)
        has_ended = main is not None and main.state in ENDED
        if not has_ended and launcher_state(launch, here) == UNKNOWN:
            return Hold(f"may still run {_elsewhere(launch, here)}", True)
    return None


def _without_manifest(entry: RunEntry, now_unix_ns: int) -> Hold | None:
    if entry.processes:
        return None
    try:
        made_ns = entry.folder.root.stat().st_mtime_ns
    except OSError:
        return Hold("is gone")
    if now_unix_ns - made_ns < STARTING_NS:
        return Hold("may be just starting: it has no run.json yet")
    return Hold("has no readable run.json to say where it ran", True)


def _elsewhere(manifest: RunManifest, here: Machine) -> str:
    if here.knows(manifest.host, manifest.boot_id, manifest.pid_namespace):
        return f"as pid {manifest.pid}: run.json does not say when that started"
    return where_it_ran(manifest, here)


def _inner_run(folder: RunFolder) -> str | None:
    for directory, _, files in os.walk(folder.root):
        path = Path(directory)
        may_be = "run.json" in files or "config.json" in files
        if may_be and path not in (folder.root, folder.boot):
            run = path.parent if path.name == folder.boot.name else path
            if RunFolder(run).is_run():
                return str(run.relative_to(folder.root))
    return None


def _boots(process: Path) -> Iterator[str]:
    try:
        variables = (process / "environ").read_bytes().split(b"\0")
    except OSError:
        return  # it ended, or is another user's
    for variable in variables:
        if variable.startswith(_PATH_VARIABLE):
            entries = os.fsdecode(variable[len(_PATH_VARIABLE) :]).split(os.pathsep)
            yield from (e for e in entries if os.path.isabs(e) and os.path.basename(e) == "boot")


def _name(process: Path) -> str:
    try:
        return (process / "comm").read_text(errors="replace").strip()
    except OSError:
        return "ended meanwhile"


def _user(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
