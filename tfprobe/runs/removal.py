"""Remove runs: out of sight by one rename, looked at once more, then deleted."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tfprobe.errors import NoAnswer, UnreadableInput
from tfprobe.runs.catalogue import glance
from tfprobe.runs.deletion import delete
from tfprobe.runs.holds import Users, boot_users, held_by_process, hold
from tfprobe.runs.layout import LATEST, REMOVING_PREFIX, TEMPORARY_PREFIX, RunFolder, children
from tfprobe.runs.liveness import Machine

# What is still being written is younger by far.
STALE_NS = 24 * 3600 * 1_000_000_000
_LONGEST_NAME_BYTES = 255
# Looking at all processes takes a tenth of a second where there are thousands.
_AT_ONCE = 32


@dataclass(frozen=True, slots=True)
class Removal:
    """What became of one run: gone with `freed_bytes`, or why it is still there or part of it."""

    folder: RunFolder
    freed_bytes: int
    problem: str | None


def named_run(wanted: str, output: Path) -> RunFolder:
    """Resolve a run's directory or id, and nothing that might mean another run tomorrow.

    A link stays a link. Raises NoAnswer for `latest`, UnreadableInput for what is no run.
    """
    if wanted == LATEST:
        hint = "`tfprobe ls --limit 1` tells it."
        raise NoAnswer("`latest` may be another run by now; name the one you mean.", hint=hint)
    # Made absolute: the last name of `.` or `run/` is not that of the directory.
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
    """Remove runs, each or none of it; `force` takes those whose state nobody here can tell.

    A job may start a process at any moment. So a run is renamed first, after which none can open
    it any more, and put back if one is there by then.
    """
    done: list[Removal] = []
    for at in range(0, len(runs), _AT_ONCE):
        done += _remove_some(runs[at : at + _AT_ONCE], here, force=force)
    return tuple(done)


def leftovers(
    directory: Path, ended: Sequence[RunFolder], here: Machine, now_unix_ns: int
) -> tuple[Path, ...]:
    """Return what killed programs left: half-removed runs, and stale temporary files.

    The latter only in runs that have ended, and in the directory itself.
    """
    users = boot_users(here.proc)
    halves = [path for path in children(directory) if path.name.startswith(REMOVING_PREFIX)]
    stale = [path for path in children(directory) if _is_stale(path, now_unix_ns)]
    for run in ended:
        stale += _stale_below(run.root, now_unix_ns)
    return (*(path for path in halves if _may_go(path, here, users)), *stale)


def _remove_some(runs: Sequence[RunFolder], here: Machine, *, force: bool) -> list[Removal]:
    """Remove runs with two looks at all processes; an interrupt puts back what is whole."""
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
    """Rename a run out of sight; return its place there, or why it stays."""
    held = hold(glance(run, here), here, users, time.time_ns())
    if held is not None and not (force and held.may_be_forced):
        return held.why
    place = run.root.with_name(_hidden_name(run.id))
    try:
        os.rename(run.root, place)
    except OSError as exc:
        return f"cannot be renamed in {run.root.parent}: {exc.strerror or exc}"
    return place


def _finish(run: RunFolder, place: Path, here: Machine, users: Users) -> Removal:
    held = held_by_process(glance(RunFolder(place), here), users, run.boot)
    if held is not None:
        return Removal(run, 0, _put_back(run, place, held.why))
    gone = delete(place)
    if gone.problem is None:
        return Removal(run, gone.freed_bytes, None)
    return Removal(run, gone.freed_bytes, f"is in part still in {place}: {gone.problem}")


def _put_back(run: RunFolder, place: Path, why: str) -> str:
    """Give a run its name again; return why it stays, and where if not there."""
    try:
        os.rename(place, run.root)
    except OSError as exc:
        return f"{why}, and is now {place}: {exc.strerror or exc}"
    return why


def _hidden_name(run_id: str) -> str:
    """Return a name that readers ignore and that tells the run's own."""
    name = f"{REMOVING_PREFIX}{os.urandom(3).hex()}-{run_id}"
    return os.fsdecode(os.fsencode(name)[:_LONGEST_NAME_BYTES])


def _may_go(half: Path, here: Machine, users: Users) -> bool:
    """Say whether a half-removed run may be finished: none may have looked at it once hidden."""
    if half.is_symlink() or not half.is_dir():
        return False
    if os.geteuid() not in (0, half.lstat().st_uid):
        return False
    run_id = half.name.removeprefix(REMOVING_PREFIX).partition("-")[2]
    boot = RunFolder(half.with_name(run_id or half.name)).boot
    return held_by_process(glance(RunFolder(half), here), users, boot) is None


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
