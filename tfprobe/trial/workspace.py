"""Where an arm runs: it finds the files of the user, and nothing that it writes reaches them.

Where the kernel allows it, the working directory and the user's home are overlaid. Otherwise the
working directory is copied.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from tfprobe.errors import TfprobeError
from tfprobe.launch import environ
from tfprobe.trial.namespace import Overlay, enter, mounts_below

# A copy of more than this is refused.
MOST_COPIED_BYTES = 1 << 30
_ATTEMPT_TIMEOUT_S = 60
_MOST_LISTED = 20


class WorkspaceError(TfprobeError):
    """The files of the user cannot be kept out of a trial's reach."""


class Isolation(Enum):
    """How the user's files are kept. The value is its word in documents."""

    OVERLAY = "overlay"
    COPY = "copy"


@dataclass(frozen=True, slots=True)
class Workspace:
    """How arms see files. `overlaid` are the directories that none of them changes."""

    isolation: Isolation
    cwd: Path
    overlaid: tuple[Path, ...]
    scratch: Path

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
        shutil.copytree(self.cwd, copy, symlinks=True, ignore_dangling_symlinks=True)
        return copy

    def written(self, arm: Path) -> tuple[str, ...]:
        """Return files that an arm wrote and that would have been the user's, at most some."""
        found: list[str] = []
        for overlay in self.overlays(arm):
            for folder, _, files in os.walk(overlay.upper):
                place = overlay.path / Path(folder).relative_to(overlay.upper)
                found += [str(place / name) for name in sorted(files)]
                if len(found) >= _MOST_LISTED:
                    return tuple(found[:_MOST_LISTED])
        return tuple(found)


def workspace(cwd: Path, scratch: Path, protect: Sequence[Path] = ()) -> Workspace:
    """Find how the user's files in `cwd`, the home directory and `protect` can be kept.

    Raises WorkspaceError where nothing works.
    """
    if cwd.resolve() == Path("/"):
        raise WorkspaceError(
            "A trial would let the job write into /, which cannot be overlaid.",
            hint="Start it in the directory of the job.",
        )
    overlaid = _overlaid([cwd, *_home(), *protect])
    found = Workspace(Isolation.OVERLAY, cwd, overlaid, scratch)
    if _works(found):
        return found
    size = _size(cwd)
    if size > MOST_COPIED_BYTES:
        raise WorkspaceError(
            f"A trial would let the job write into {cwd}: this machine allows no overlay over it, "
            f"and it is too large to be copied (over {MOST_COPIED_BYTES >> 30} GiB).",
            hint="Start the trial in a smaller directory, or as a user who may mount overlays.",
        )
    return Workspace(Isolation.COPY, cwd, (cwd,), scratch)


def attempt(place: Workspace, arm: Path) -> None:
    """Enter a workspace and write into each directory of it. Raises OSError where that fails."""
    enter(place.overlays(arm), place.scratch)
    for path in place.overlaid:
        probe = path / f".tfprobe-{os.getpid()}"
        probe.touch()
        probe.unlink()


def _works(place: Workspace) -> bool:
    """Try it in a process of its own: there is no way back out of a namespace."""
    arm = place.scratch / "attempt"
    place.make(arm)
    code = (
        "import json, sys; from pathlib import Path; from tfprobe.trial import workspace as w; "
        "cwd, scratch, arm, *overlaid = map(Path, json.loads(sys.argv[1])); "
        "w.attempt(w.Workspace(w.Isolation.OVERLAY, cwd, tuple(overlaid), scratch), arm)"
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
        return done.returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False
    finally:
        shutil.rmtree(arm, ignore_errors=True)


def _overlaid(paths: Sequence[Path]) -> tuple[Path, ...]:
    """Return the outermost of the paths and what is mounted below them; never the whole root."""
    real = {path.resolve() for path in paths if path.is_dir()} - {Path("/")}
    outer = sorted(path for path in real if not any(other in path.parents for other in real))
    below = [mount for path in outer for mount in mounts_below(path) if mount.is_dir()]
    return (*outer, *below)


def _home() -> list[Path]:
    home = Path(os.path.expanduser("~"))
    return [home] if home.is_absolute() and os.access(home, os.W_OK) else []


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
