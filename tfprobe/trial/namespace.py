"""Overlay directories in a mount namespace of this process alone, by system calls of Linux.

Nothing that the process or its children write reaches the directories: it goes to others.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

# <linux/sched.h> and <linux/mount.h>.
_CLONE_NEWNS = 0x00020000
_CLONE_NEWUSER = 0x10000000
_MS_BIND = 0x1000
_MS_REC = 0x4000
_MS_PRIVATE = 1 << 18
# File systems of the kernel itself: they hold no files of a user.
_PSEUDO = frozenset(
    {"proc", "sysfs", "devpts", "cgroup", "cgroup2", "mqueue", "autofs", "devtmpfs"}
)
# Spaces, backslashes and the like in the paths of mounts.
_OCTAL = re.compile(r"\\([0-7]{3})")
# The sockets of this network namespace: the path is the eighth field, if one has any.
_SOCKETS = "/proc/net/unix"


@dataclass(frozen=True, slots=True)
class Overlay:
    """A directory, and where writes to it go: `upper` for the files, `work` for the kernel."""

    path: Path
    upper: Path
    work: Path


def enter(overlays: Sequence[Overlay], scratch: Path) -> dict[Path, OSError]:
    """Put this process into namespaces of its own and overlay the directories there.

    Return those that could not be, with the reason. `scratch`, which holds the upper directories,
    stays as it is, and so does what lies below an overlay and cannot be overlaid: sockets, files
    that are mounted, and what the kernel refuses. The working directory must be entered again
    afterwards. Raises OSError where the kernel refuses a namespace.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    _unshare(libc)
    _mount(libc, "none", "/", None, _MS_REC | _MS_PRIVATE, None)
    by_path = {overlay.path: overlay for overlay in overlays}
    # Opened before anything lies over them.
    below = {path: os.open(path, os.O_PATH) for path in (*by_path, scratch)}
    below.update(_opened({*_mounted_below(by_path), *_sockets_below(by_path)} - below.keys()))
    laid: list[Path] = []
    refused = {}
    for path in sorted(below):  # outermost first
        if path in by_path:
            try:
                _lay(libc, by_path[path], below[path])
                laid.append(path)
                continue
            except OSError as problem:
                refused[path] = problem
        if any(each in path.parents for each in laid):
            _mount(libc, f"/proc/self/fd/{below[path]}", path, None, _MS_BIND | _MS_REC, None)
    for descriptor in below.values():
        os.close(descriptor)
    return refused


def mounts() -> list[Path]:
    """Return where file systems with files are mounted, outermost first."""
    found = {point for point, kind in _mounts() if kind not in _PSEUDO}
    return sorted(found)


def _lay(libc: ctypes.CDLL, overlay: Overlay, below: int) -> None:
    upper, work = (os.open(path, os.O_PATH) for path in (overlay.upper, overlay.work))
    # Paths may have commas, which separate options.
    named = (("lowerdir", below), ("upperdir", upper), ("workdir", work))
    options = ",".join(f"{option}=/proc/self/fd/{descriptor}" for option, descriptor in named)
    try:
        _mount(libc, "overlay", overlay.path, "overlay", 0, options)
    except OSError:  # what a user who is no root needs
        _mount(libc, "overlay", overlay.path, "overlay", 0, f"{options},userxattr")
    finally:
        os.close(upper)
        os.close(work)


def _mounted_below(directories: Iterable[Path]) -> list[Path]:
    return [point for point, _ in _mounts() if any(each in point.parents for each in directories)]


def _sockets_below(directories: Iterable[Path]) -> list[Path]:
    """Return the sockets that somebody has opened there: none is reached through an overlay."""
    with open(_SOCKETS, encoding="utf-8", errors="surrogateescape") as lines:
        fields = [line.rstrip("\n").split(None, 7) for line in lines]
    paths = {Path(each[7]) for each in fields if len(each) == 8 and each[7].startswith("/")}
    return [path for path in paths if any(each in path.parents for each in directories)]


def _opened(paths: Iterable[Path]) -> dict[Path, int]:
    """Open what is still there and may be seen."""
    found = {}
    for path in paths:
        with contextlib.suppress(OSError):
            found[path] = os.open(path, os.O_PATH)
    return found


def _mounts() -> list[tuple[Path, str]]:
    """Return each place where something is mounted, with the kind of its file system."""
    found = []
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as lines:
        for line in lines:
            before, _, after = line.partition(" - ")
            point = _OCTAL.sub(lambda octal: chr(int(octal[1], 8)), before.split(" ")[4])
            found.append((Path(point), after.split(" ")[0]))
    return found


def _unshare(libc: ctypes.CDLL) -> None:
    if libc.unshare(_CLONE_NEWNS) == 0:
        return
    user, group = os.geteuid(), os.getegid()
    if libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNS) != 0:
        raise _last_error()
    # Only in this order may a user map his own group. Mounting needs no root there before an exec.
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)


def _mount(
    libc: ctypes.CDLL, source: str, target: str | Path, kind: str | None, flags: int,
    options: str | None,
) -> None:  # fmt: skip
    done = libc.mount(
        os.fsencode(source),
        os.fsencode(target),
        None if kind is None else kind.encode(),
        ctypes.c_ulong(flags),
        None if options is None else os.fsencode(options),
    )
    if done != 0:
        raise _last_error(str(target))


def _last_error(path: str | None = None) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number), path)
