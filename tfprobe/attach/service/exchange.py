"""The folder that a profiler service writes its trace into, where it does not send it.

TensorFlow 2.4 to 2.20 or so write REPOSITORY/SESSION/HOST.xplane.pb on the file system of the job.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tfprobe.errors import UnreadableInput, UsageError
from tfprobe.runs.layout import XSPACE_SUFFIX
from tfprobe.runs.safe_files import content_of

# Network file systems show what another machine wrote after a moment.
PATIENCE_S = 3.0
_LOOK_AGAIN_S = 0.1


@dataclass(frozen=True, slots=True)
class SharedFolder:
    """A folder that both see: what it is called here and what the service calls it."""

    here: Path
    there: str


@dataclass(frozen=True, slots=True)
class ExchangeFolder:
    """A folder of tfprobe in a shared one; `close` removes it."""

    here: Path
    there: str
    is_open_to_others: bool

    def session(self, name: str) -> Path:
        """Make the folder of one recording, which the service would make otherwise.

        Raises UsageError where it cannot be made.
        """
        path = self.here / name
        try:
            path.mkdir(0o700)
            if self.is_open_to_others:
                # Whoever runs the job writes into it. It is ours, so that we may empty it again.
                path.chmod(0o777)
        except OSError as exc:
            raise _refused(path, exc) from exc
        return path

    def close(self) -> None:
        """Remove it with all that is in it."""
        shutil.rmtree(self.here, ignore_errors=True)


def shared_folder(text: str) -> SharedFolder:
    """Read REMOTE or REMOTE=LOCAL.

    Raises UsageError where it is no folder here, or not named from the root there.
    """
    there, _, here = text.partition("=")
    folder = Path(here or there)
    if not there.startswith("/"):
        hint = "Use the absolute path that the service sees, as in /shared/profiles."
        raise UsageError(f"A service cannot find {there!r}: it is a relative path.", hint=hint)
    if not folder.is_dir():
        hint = "If it has another path here, use REMOTE=LOCAL."
        raise UsageError(f"{folder} is not a directory here.", hint=hint)
    return SharedFolder(folder.resolve(), there.rstrip("/") or "/")


def private(folder: Path) -> ExchangeFolder:
    """Create one in a folder of tfprobe, which has the same path there. Raises UsageError."""
    path = folder / "exchange"
    try:
        path.mkdir(0o700)
    except OSError as exc:
        raise _refused(path, exc) from exc
    return ExchangeFolder(path, str(path), is_open_to_others=False)


def shared(folder: SharedFolder) -> ExchangeFolder:
    """Make one in a shared folder, for a service of another user. Raises UsageError."""
    try:
        path = Path(tempfile.mkdtemp(prefix="tfprobe-", dir=folder.here))
        path.chmod(0o755)
    except OSError as exc:
        raise _refused(folder.here, exc) from exc
    return ExchangeFolder(path, os.path.join(folder.there, path.name), is_open_to_others=True)


def taken(session: Path) -> bytes | None:
    """Return the trace that was written into a session's folder, and remove it; None without one.

    Raises UnreadableInput if it exists but cannot be read.
    """
    until_s = time.monotonic() + PATIENCE_S
    while True:
        files = sorted(session.glob(f"*{XSPACE_SUFFIX}"))
        if files:
            return _taken(files[0])
        if time.monotonic() >= until_s:
            return None
        time.sleep(_LOOK_AGAIN_S)


def _taken(path: Path) -> bytes:
    try:
        content = content_of(path)
        path.unlink()
    except OSError as exc:
        hint = "Run tfprobe as the user of the job."
        raise UnreadableInput(
            f"The service wrote {path}, which cannot be read: {exc.strerror or exc}.", hint=hint
        ) from exc
    return content


def _refused(path: Path, exc: OSError) -> UsageError:
    hint = "Choose another directory with -o."
    return UsageError(f"{path} cannot be created: {exc.strerror or exc}.", hint=hint)
