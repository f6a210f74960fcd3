"""Remove runs: hide each with a rename, check its processes once more, then delete it."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tfprobe.errors import Missing, NoAnswer, UnreadableInput
from tfprobe.runs.catalogue import RunEntry, glance
from tfprobe.runs.directory_tree import delete
from tfprobe.runs.layout import LATEST, REMOVING_PREFIX, TEMPORARY_PREFIX, RunFolder, children
from tfprobe.runs.liveness import (
    ENDED,
    LIVE,
    NANOSECONDS,
    UNKNOWN,
    Machine,
    ended_unread,
    launcher_state,
    main_process,
    where_it_ran,
)
from tfprobe.runs.manifests import RunManifest

# Files that are still being written are far younger than this.
STALE_NS = 24 * 3600 * 1_000_000_000
_LONGEST_NAME_BYTES = 255
# Scanning all processes takes a tenth of a second on a machine with thousands of them.
_AT_ONCE = 32


@dataclass(frozen=True, slots=True)
class Removal:
    """The outcome for one run: removed, with `freed_bytes`, or why all or part of it remains."""

    folder: RunFolder
    freed_bytes: int
    problem: str | None


def named_run(wanted: str, output: Path) -> RunFolder:
    """Resolve a run's directory or id, but no name that could refer to another run tomorrow.

    Links are not resolved. Raises NoAnswer for `latest` and UnreadableInput for anything that is
    not a run.
    """
    if wanted == LATEST:
        hint = "`tfprobe ls --limit 1` tells it."
        raise NoAnswer("`latest` may be another run by now; name the one you mean.", hint=hint)
    # Made absolute: the last component of `.` or `run/` is not the directory's name.
    places = [Path(os.path.abspath(wanted))] if wanted else []
    if wanted and os.sep not in wanted:
        places.append(Path(os.path.abspath(output / wanted)))
    for place in places:
        if RunFolder(place).is_run():
            return RunFolder(place)
    holder = wanted if os.path.isdir(wanted) else output
    hint = f"`tfprobe ls {holder}` lists the runs there are."
    raise UnreadableInput(
        f"{wanted!r} is neither a run directory nor a run in {output}.", hint=hint
    )


def remove(runs: Sequence[RunFolder], here: Machine, *, force: bool) -> tuple[Removal, ...]:
    """Remove each run as a whole or not at all; `force` includes runs whose state is unknown here.

    A job may start a process at any moment. Each run is therefore renamed first, so that no process
    can open it any more, and renamed back if a process already uses it.
    """
    done: list[Removal] = []
    for at in range(0, len(runs), _AT_ONCE):
        done += _remove_some(runs[at : at + _AT_ONCE], here, force=force)
    return tuple(done)


def leftovers(
    directory: Path, ended: Sequence[RunFolder], here: Machine, now_unix_ns: int
) -> tuple[Path, ...]:
    """Return what killed programs left behind: half-removed runs and stale temporary files.

    Temporary files count only in `directory` itself and in runs that have ended.
    """
    users = boot_users(here.proc)
    halves = [path for path in children(directory) if path.name.startswith(REMOVING_PREFIX)]
    stale = [path for path in children(directory) if _is_stale(path, now_unix_ns)]
    for run in ended:
        stale += _stale_below(run.root, now_unix_ns)
    return (*(path for path in halves if _may_go(path, here, users)), *stale)


def _remove_some(runs: Sequence[RunFolder], here: Machine, *, force: bool) -> list[Removal]:
    """Remove runs, scanning all processes twice; after an interrupt, restore intact runs."""
    users = boot_users(here.proc)
    hidden: list[tuple[RunFolder, Path]] = []
    done: list[Removal] = []
    try:
        for run in runs:
            place = _hide(run, here, users, force=force)
            if isinstance(place, str):
                done.append(Removal(run, 0, place))
            else:
                hidden.append((run, place))
        users = boot_users(here.proc)
        while hidden:
            done.append(_finish(*hidden.pop(), here, users))
    finally:
        for run, place in hidden:
            _put_back(run, place, "was not removed")
    return done


def _hide(run: RunFolder, here: Machine, users: Users, *, force: bool) -> Path | str:
    """Rename a run to a hidden name; return its new path, or why it cannot be removed."""
    blocker = hold(glance(run, here), here, users, time.time_ns())
    if blocker is not None and not (force and blocker.may_be_forced):
        return blocker.why
    place = run.root.with_name(_hidden_name(run.id))
    try:
        os.rename(run.root, place)
    except OSError as exc:
        return f"cannot be renamed in {run.root.parent}: {exc.strerror or exc}"
    return place


def _finish(run: RunFolder, place: Path, here: Machine, users: Users) -> Removal:
    blocker = blocking_process(glance(RunFolder(place), here), users, run.boot)
    if blocker is not None:
        return Removal(run, 0, _put_back(run, place, blocker.why))
    gone = delete(place)
    if gone.problem is None:
        return Removal(run, gone.freed_bytes, None)
    return Removal(run, gone.freed_bytes, f"is in part still in {place}: {gone.problem}")


def _put_back(run: RunFolder, place: Path, why: str) -> str:
    """Restore the name of a run; return why it was not removed, and where it is if that fails."""
    try:
        os.rename(place, run.root)
    except OSError as exc:
        return f"{why}, and is now {place}: {exc.strerror or exc}"
    return why


def _hidden_name(run_id: str) -> str:
    """Return a name that readers ignore and that contains the run's own."""
    name = f"{REMOVING_PREFIX}{os.urandom(3).hex()}-{run_id}"
    return os.fsdecode(os.fsencode(name)[:_LONGEST_NAME_BYTES])


def _may_go(half: Path, here: Machine, users: Users) -> bool:
    """Return whether a half-removed run can be deleted: no process uses it, and it is ours."""
    if half.is_symlink() or not half.is_dir():
        return False
    if os.geteuid() not in (0, half.lstat().st_uid):
        return False
    run_id = half.name.removeprefix(REMOVING_PREFIX).partition("-")[2]
    boot = RunFolder(half.with_name(run_id or half.name)).boot
    return blocking_process(glance(RunFolder(half), here), users, boot) is None


def _stale_below(root: Path, now_unix_ns: int) -> list[Path]:
    found: list[Path] = []
    for directory, folders, files in os.walk(root):
        names = [name for name in (*folders, *files) if name.startswith(TEMPORARY_PREFIX)]
        folders[:] = [name for name in folders if name not in names]
        paths = (Path(directory, name) for name in names)
        found += [path for path in paths if _is_stale(path, now_unix_ns)]
    return found


def _is_stale(path: Path, now_unix_ns: int) -> bool:
    if not path.name.startswith(TEMPORARY_PREFIX):
        return False
    try:
        return now_unix_ns - path.lstat().st_mtime_ns > STALE_NS
    except OSError:
        return False


# The launcher needs a fraction of a second between creating the directory and run.json.
STARTING_NS = 60 * NANOSECONDS
_PATH_VARIABLE = b"PYTHONPATH="

# Boot directory -> a description of the process that has it on its path.
Users = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class RemovalBlocker:
    """Why a run must not be removed, as a phrase that follows the run's name.

    `may_be_forced` is set if it is unknown here whether the run is running: its owner may know.
    """

    why: str
    may_be_forced: bool = False


def hold(entry: RunEntry, here: Machine, users: Users, now_unix_ns: int) -> RemovalBlocker | None:
    """Return why a run must not be removed; None if it has ended, is ours and is complete."""
    return (
        _as_a_place(entry.folder)
        or blocking_process(entry, users, entry.folder.boot)
        or _unknown(entry, here, now_unix_ns)
    )


def blocking_process(entry: RunEntry, users: Users, boot: Path) -> RemovalBlocker | None:
    """Return the process that writes to a run or may start to: one with its boot directory."""
    if entry.state in LIVE:
        return RemovalBlocker(f"is {entry.state}")
    user = users.get(os.path.realpath(boot))
    return None if user is None else RemovalBlocker(f"has still a process: {user}")


def boot_users(proc: Path) -> Users:
    """Return the boot directories on the PYTHONPATH of every process that we may inspect.

    Child processes inherit the variable, so this includes those without TensorFlow imported yet.
    """
    found: dict[str, str] = {}
    for folder in children(proc):
        for boot in _boots(folder) if folder.name.isdigit() else ():
            found.setdefault(os.path.realpath(boot), f"pid {folder.name} ({_name(folder)})")
    return found


def _as_a_place(folder: RunFolder) -> RemovalBlocker | None:
    try:
        facts = folder.root.lstat()
    except OSError:
        return RemovalBlocker("is gone")
    if stat.S_ISLNK(facts.st_mode):
        return RemovalBlocker(
            f"is a link to {os.path.realpath(folder.root)}, which has a name of its own"
        )
    if os.geteuid() not in (0, facts.st_uid):
        return RemovalBlocker(f"belongs to user {_user(facts.st_uid)}")
    inner = _inner_run(folder)
    return None if inner is None else RemovalBlocker(f"holds another run, {inner}")


def _unknown(entry: RunEntry, here: Machine, now_unix_ns: int) -> RemovalBlocker | None:
    """Return why it is unknown here whether the run has ended."""
    for process in entry.processes:
        if process.state == UNKNOWN and not ended_unread(process, here):
            where = f"{process.folder.host}/{process.folder.name}"
            return RemovalBlocker(f"has a process that cannot be looked up here: {where}", True)
    manifest = entry.manifest
    if isinstance(manifest, Missing):
        return _without_manifest(entry, now_unix_ns)
    for launch in (manifest, *entry.launches):
        main = main_process(launch, entry.processes)
        has_ended = main is not None and main.state in ENDED
        if not has_ended and launcher_state(launch, here) == UNKNOWN:
            return RemovalBlocker(f"may still run {_elsewhere(launch, here)}", True)
    return None


def _without_manifest(entry: RunEntry, now_unix_ns: int) -> RemovalBlocker | None:
    if entry.processes:
        return None
    try:
        made_ns = entry.folder.root.stat().st_mtime_ns
    except OSError:
        return RemovalBlocker("is gone")
    if now_unix_ns - made_ns < STARTING_NS:
        return RemovalBlocker("may be just starting: it has no run.json yet")
    return RemovalBlocker("has no readable run.json to say where it ran", True)


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
        return  # it has ended, or belongs to another user
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
