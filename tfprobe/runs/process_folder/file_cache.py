"""Read files and directories repeatedly, but only again if they may have changed."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from tfprobe.errors import Missing, UnreadableInput
from tfprobe.runs.layout import ProcessFolder
from tfprobe.runs.liveness import LIVE, Machine, ProcessEntry, ended_process, may_say_more
from tfprobe.runs.manifests import read_process
from tfprobe.runs.process_folder.steps import StepsFile, StepsReader
from tfprobe.runs.process_folder.steps_layout import RING_STEPS, Header

T = TypeVar("T")

# The time of a directory has ticks of up to 10 ms, and file servers report a change only seconds
# later: after a change was seen, the directory is listed again for this long.
SETTLED_S = 3.0


class Reread(Generic[T]):
    """A small file that is replaced as a whole, such as a manifest, and its last contents."""

    def __init__(self, path: Path, read: Callable[[Path], T]) -> None:
        """`read` may raise UnreadableInput."""
        self._path = path
        self._read = read
        self._seen: tuple[int, ...] | None = None
        self._value: T | Missing = Missing(f"{path} has not been read.")

    def value(self) -> T | Missing:
        """Return the contents of the file, or why they are unknown."""
        seen = _seen(self._path)
        if seen is None or seen != self._seen:
            self._seen = seen
            self._value = self._read_now()
        return self._value

    def _read_now(self) -> T | Missing:
        try:
            return self._read(self._path)
        except UnreadableInput as exc:
            return Missing(str(exc))


class Listing:
    """The names in a directory."""

    def __init__(self, path: Path) -> None:
        """Begin with nothing read."""
        self._path = path
        self._changed: tuple[int, ...] | None = None
        self._settles_at_s = 0.0
        self._is_settled = False
        self._names: tuple[str, ...] | Missing = ()

    def names(self, now_s: float) -> tuple[str, ...] | Missing:
        """Return the names, or why they are not known; what is no directory, or absent, has none.

        `now_s` is of a clock that never goes back.
        """
        try:
            self._look(now_s)
        except FileNotFoundError:
            self._forget(())
        except OSError as exc:
            self._forget(Missing(f"{self._path} cannot be read: {exc.strerror or exc}."))
        return self._names

    def _look(self, now_s: float) -> None:
        found = os.stat(self._path)
        changed = (found.st_dev, found.st_ino, found.st_mtime_ns)
        if changed != self._changed:
            self._changed, self._settles_at_s = changed, now_s + SETTLED_S
            self._is_settled = False
        if self._is_settled:
            return
        is_directory = stat.S_ISDIR(found.st_mode)
        self._names = tuple(sorted(os.listdir(self._path))) if is_directory else ()
        self._is_settled = now_s >= self._settles_at_s

    def _forget(self, names: tuple[str, ...] | Missing) -> None:
        self._changed, self._is_settled, self._names = None, False, names


def _seen(path: Path) -> tuple[int, ...] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


class ProcessReader:
    """One process folder, of whose files only what is new is read."""

    def __init__(
        self, folder: ProcessFolder, here: Machine, *, keep_steps: int = RING_STEPS
    ) -> None:
        """Begin with nothing read; keep the latest `keep_steps` steps of each loop."""
        self.folder = folder
        self._here = here
        self._manifest = Reread(folder.manifest, read_process)
        self._steps = StepsReader(folder.steps, keep_steps=keep_steps)

    def read(self) -> tuple[ProcessEntry, StepsFile | Missing]:
        """Return the entry of the process, and its steps."""
        manifest, steps = self._manifest.value(), self._read_steps()
        known = None if isinstance(manifest, Missing) else manifest
        state = ended_process(self.folder, _header(steps), known, self._here)
        if state not in LIVE and may_say_more(_header(steps)):
            # It may have made more steps between the two reads.
            steps = self._read_steps()
            state = ended_process(self.folder, _header(steps), known, self._here)
        if isinstance(steps, Missing):
            service = None if known is None else known.service
            count = 0 if service is None else service.steps
            return ProcessEntry(self.folder, manifest, steps, count, state), steps
        count = sum(loop.count for loop in steps.loops)
        return ProcessEntry(self.folder, manifest, steps.header, count, state), steps

    def _read_steps(self) -> StepsFile | Missing:
        try:
            return self._steps.read()
        except UnreadableInput as exc:
            return Missing(str(exc))


def _header(steps: StepsFile | Missing) -> Header | None:
    return None if isinstance(steps, Missing) else steps.header
