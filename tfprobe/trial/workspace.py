"""Where an arm runs: it finds the files of the user, and nothing that it writes reaches them.

Where the kernel allows it, all directories are overlaid that may hold files of users. Otherwise the
working directory is copied.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

from tfprobe.errors import TfprobeError
from tfprobe.launch import environ
from tfprobe.trial.namespace import Overlay, enter, mounts

# A copy of more than this is refused.
MOST_COPIED_BYTES = 1 << 30
_ATTEMPT_TIMEOUT_S = 60
_MOST_LISTED = 20
# Directories of the system and of what runs now, by the Filesystem Hierarchy Standard and systemd:
# jobs find them as they are. Temporary files below /var are users' files.
_SYSTEM = re.compile(
    r"/((bin|boot|dev|etc|lib|lib32|lib64|libx32|lost\+found|proc|run|sbin|snap|sys|usr|var)(/|$)|$)"
)
_OF_USERS = ("/tmp", "/var/tmp")
# What Python's tempfile, multiprocessing and TensorFlow's autograph make and remove again. Nearly
# all names of tempfile have a digit, and what a person calls `tmp_results` has none.
_TEMPORARY = re.compile(
    r"(?P<made>/(?:var/)?tmp/(?:tmp(?=[a-z_]*[0-9])|pymp-|__autograph_generated_file)"
    r"[a-z0-9_]{8}(?![a-z0-9_])[^/]*)"
)
_COPIED = stat.S_ISREG, stat.S_ISDIR, stat.S_ISLNK


class WorkspaceError(TfprobeError):
    """The files of the user cannot be kept out of a trial's reach."""


class Isolation(Enum):
    """How the user's files are kept. The value is its word in documents."""

    OVERLAY = "overlay"
    COPY = "copy"


@dataclass(frozen=True, slots=True)
class Workspace:
    """How arms see files. `overlaid` are the directories that none of them changes.

    `refused` are those of users over which the kernel allows no overlay.
    """

    isolation: Isolation
    cwd: Path
    overlaid: tuple[Path, ...]
    scratch: Path
    refused: tuple[Path, ...] = ()

    def overlays(self, arm: Path) -> tuple[Overlay, ...]:
        """Return where the writes of an arm go, whose own directory is `arm`."""
        if self.isolation is Isolation.COPY:
            return ()
        return tuple(
            Overlay(path, arm / f"upper-{at}", arm / f"work-{at}")
            for at, path in enumerate(self.overlaid)
        )

    def make(self, arm: Path) -> Path:
        """Make the directory of an arm with all that it needs; return where the arm starts."""
        arm.mkdir(mode=0o700)
        for overlay in self.overlays(arm):
            overlay.upper.mkdir()
            overlay.work.mkdir()
        if self.isolation is Isolation.OVERLAY:
            return self.cwd
        copy = arm / "copy"
        shutil.copytree(
            self.cwd, copy, symlinks=True, ignore_dangling_symlinks=True, ignore=_special
        )
        return copy

    def written(self, arm: Path) -> tuple[str, ...]:
        """Return files that an arm wrote and that would have been the user's, at most some.

        Left out are temporary ones, because an arm is stopped before they are removed, and what
        Python compiles.
        """
        found: list[str] = []
        for overlay in self.overlays(arm):
            for folder, _, files in os.walk(overlay.upper):
                place = overlay.path / Path(folder).relative_to(overlay.upper)
                names = (str(place / name) for name in sorted(files))
                found += [name for name in names if not _is_by_product(name)]
                if len(found) >= _MOST_LISTED:
                    return tuple(found[:_MOST_LISTED])
        return tuple(found)


def _is_by_product(name: str) -> bool:
    """Return whether a file is a temporary one that was not there before, or compiled Python."""
    if "/__pycache__/" in name:
        return True
    known = _TEMPORARY.match(name)
    return known is not None and not os.path.lexists(known["made"])


def workspace(cwd: Path, scratch: Path) -> Workspace:
    """Find how the user's files can be kept: those in `cwd`, and as many others as can be.

    Raises WorkspaceError where nothing works.
    """
    real = cwd.resolve()
    if not real.is_dir():
        raise WorkspaceError(
            "The working directory is gone.", hint="Start the trial in the directory of the job."
        )
    if real == Path("/"):
        raise WorkspaceError(
            "A trial would let the job write into /, which cannot be overlaid.",
            hint="Start it in the directory of the job.",
        )
    nearest = [cwd, *_home()]
    everywhere = _overlaid([*nearest, *_of_users()])
    own = _overlaid([*nearest, *filter(_is_writable, _of_users())])
    # Elsewhere, a server of files that does not answer may keep the attempt waiting.
    for wanted in (own, _overlaid(nearest)):
        place = Workspace(Isolation.OVERLAY, cwd, wanted, scratch)
        refused = _refused(place)
        overlaid = tuple(path for path in wanted if path not in refused)
        # The innermost of them has its files.
        around = [path for path in wanted if path == real or path in real.parents]
        if around and max(around) in overlaid:
            kept = tuple(path for path in everywhere if path not in overlaid)
            return replace(place, overlaid=overlaid, refused=kept)
    size = _size(cwd)
    if size > MOST_COPIED_BYTES:
        raise WorkspaceError(
            f"A trial would let the job write into {cwd}: this machine allows no overlay over it, "
            f"and it is too large to be copied (over {MOST_COPIED_BYTES >> 30} GiB).",
            hint="Start the trial in a smaller directory, or as a user who may mount overlays.",
        )
    return Workspace(Isolation.COPY, cwd, (cwd,), scratch)


def attempt(place: Workspace, arm: Path) -> list[str]:
    """Enter a workspace; return the directories where that, or to write a file, fails.

    Raises OSError where the kernel refuses a namespace.
    """
    refused = set(enter(place.overlays(arm), place.scratch))
    cwd = place.cwd.resolve()
    around = [path for path in place.overlaid if path in cwd.parents]
    # Of files in it, the kernel must copy the directories, too, which have owners.
    probed = {path: path for path in place.overlaid}
    if around and cwd not in probed:
        probed[cwd] = max(around)
    for path, overlay in probed.items():
        if overlay not in refused and os.access(path, os.W_OK):
            probe = path / f".tfprobe-{os.getpid()}"
            try:
                probe.touch()
                probe.unlink()
            except OSError:
                refused.add(overlay)
    return [str(path) for path in refused]


def _refused(place: Workspace) -> set[Path]:
    """Return what cannot be overlaid; tried in a process of its own, for there is no way back."""
    arm = place.scratch / "attempt"
    place.make(arm)
    code = (
        "import json, sys; from pathlib import Path; from tfprobe.trial import workspace as w; "
        "cwd, scratch, arm, *overlaid = map(Path, json.loads(sys.argv[1])); "
        "place = w.Workspace(w.Isolation.OVERLAY, cwd, tuple(overlaid), scratch); "
        "print(json.dumps(w.attempt(place, arm)))"
    )
    paths = json.dumps([str(path) for path in (place.cwd, place.scratch, arm, *place.overlaid)])
    try:
        done = subprocess.run(
            [sys.executable, "-c", code, paths],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_ATTEMPT_TIMEOUT_S,
            check=False,
            cwd=place.scratch,
            env={**environ.inherited(), "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        return set(map(Path, json.loads(done.stdout if done.returncode == 0 else paths)))
    except (OSError, subprocess.TimeoutExpired):
        return set(place.overlaid)
    finally:
        remove(arm)


def remove(folder: Path) -> None:
    """Remove the directory of an arm, or that of all arms."""
    for work in (*folder.glob("work-*/work"), *folder.glob("*/work-*/work")):
        with contextlib.suppress(OSError):
            work.chmod(0o700)  # the kernel makes it such that only root may look into it
    shutil.rmtree(folder, ignore_errors=True)


def _special(folder: str, names: list[str]) -> list[str]:
    """Return the names that are neither files, directories nor links: they have no copy."""
    modes = {name: os.lstat(os.path.join(folder, name)).st_mode for name in names}
    return [name for name, mode in modes.items() if not any(is_a(mode) for is_a in _COPIED)]


def _overlaid(paths: Sequence[Path]) -> tuple[Path, ...]:
    """Return the outermost of the paths and what is mounted below them; never the whole root."""
    real = {path.resolve() for path in paths if path.is_dir()} - {Path("/")}
    outer = sorted(path for path in real if not any(other in path.parents for other in real))
    below = {mount for mount in mounts() if any(path in mount.parents for path in outer)}
    return (*outer, *sorted(mount for mount in below if mount.is_dir()))


def _home() -> list[Path]:
    home = Path(os.path.expanduser("~"))
    return [home] if home.is_absolute() and os.access(home, os.W_OK) else []


def _of_users() -> list[Path]:
    """Return the directories in / that may hold files of users, and disks mounted elsewhere."""
    with os.scandir("/") as entries:
        found = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    found += map(str, mounts())
    wanted = [*_OF_USERS, *(path for path in found if not _SYSTEM.match(path))]
    return [Path(path) for path in wanted if os.access(path, os.X_OK)]


def _is_writable(path: Path) -> bool:
    """Return whether files below can be written through an overlay.

    Where the user is not root, the kernel cannot copy what belongs to another user or group.
    """
    if os.geteuid() == 0 or str(path) in _OF_USERS:
        return True
    facts = path.stat()
    return (facts.st_uid, facts.st_gid) == (os.geteuid(), os.getegid())


def _size(directory: Path) -> int:
    """Return the size of a directory in bytes, or something above what may be copied."""
    total = 0
    for folder, _, files in os.walk(directory):
        for name in files:
            try:
                facts = os.lstat(os.path.join(folder, name))
            except OSError:
                continue  # gone in between
            total += facts.st_size if stat.S_ISREG(facts.st_mode) else 0
        if total > MOST_COPIED_BYTES:
            break
    return total
