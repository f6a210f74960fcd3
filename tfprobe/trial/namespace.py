"""Overlay directories in a mount namespace of this process alone, by system calls of Linux.

Nothing that the process or its children write reaches the directories: it goes to others.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
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


@dataclass(frozen=True, slots=True)
class Overlay:
    """A directory, and where writes to it go: `upper` for the files, `work` for the kernel."""

    path: Path
    upper: Path
    work: Path


def enter(overlays: Sequence[Overlay], scratch: Path) -> None:
    """Put this process into namespaces of its own and overlay the directories there.

    `scratch`, which holds the upper directories, stays as it is. The working directory must be
    entered again afterwards. Raises OSError where the kernel refuses.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    _unshare(libc)
    _mount(libc, "none", "/", None, _MS_REC | _MS_PRIVATE, None)
    # Opened before anything lies over them.
    below = {overlay.path: os.open(overlay.path, os.O_PATH) for overlay in overlays}
    kept = os.open(scratch, os.O_PATH)
    for overlay in overlays:
        lower = f"/proc/self/fd/{below[overlay.path]}"
        options = f"lowerdir={lower},upperdir={overlay.upper},workdir={overlay.work}"
        try:
            _mount(libc, "overlay", overlay.path, "overlay", 0, options)
        except OSError:  # what a user who is no root needs
            _mount(libc, "overlay", overlay.path, "overlay", 0, f"{options},userxattr")
        if overlay.path in (scratch, *scratch.parents):
            _mount(libc, f"/proc/self/fd/{kept}", scratch, None, _MS_BIND, None)
    for descriptor in (*below.values(), kept):
        os.close(descriptor)


def mounts_below(directory: Path) -> list[Path]:
    """Return where other file systems are mounted below a directory, outermost first."""
    found = []
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as lines:
        for line in lines:
            before, _, after = line.partition(" - ")
            # Spaces and the like are octal there.
            point = Path(before.split(" ")[4].encode().decode("unicode_escape"))
            if directory in point.parents and after.split(" ")[0] not in _PSEUDO:
                found.append(point)
    return sorted(set(found))


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
