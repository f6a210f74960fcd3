"""Overlay directories in a mount namespace of this process alone, by system calls of Linux.

Nothing that the process or its children write reaches the directories: it goes to others.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import re
import select
import shutil
import signal
import stat
from collections.abc import Iterable, Mapping, Sequence, Set
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
# A mounted file of more than this is no copy.
_MOST_COPIED_BYTES = 64 << 20
# Each needs a descriptor, of which a process may have a thousand.
_MOST_SOCKETS = 200
# A process that was killed ends at once, unless it waits for a disk.
_DYING_S = 2.0
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
    stays as it is, and so does what lies below an overlay and cannot be overlaid: sockets and what
    the kernel refuses. Files that are mounted are copies. The working directory must be entered
    again afterwards. Raises OSError where the kernel refuses a namespace.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    _unshare(libc)
    _mount(libc, "none", "/", None, _MS_REC | _MS_PRIVATE, None)
    by_path = {overlay.path: overlay for overlay in overlays}
    sockets = _sockets_below(by_path)
    mounted = [path for path in _mounted_below(by_path) if path not in by_path]
    with contextlib.ExitStack() as opened:
        # Before anything lies over them.
        below = {path: _open(path, opened) for path in (*by_path, scratch)}
        stores = {
            path: (_open(one.upper, opened), _open(one.work, opened))
            for path, one in by_path.items()
        }
        for path in {*mounted, *sockets} - below.keys():
            with contextlib.suppress(OSError):  # it is gone, or not to be seen
                below[path] = _open(path, opened)
        if overlays:
            _copy_files([below[path] for path in mounted if path in below], overlays[0].upper)
        return _lay_all(libc, below, stores, sockets)


def _lay_all(
    libc: ctypes.CDLL,
    below: Mapping[Path, int],
    stores: Mapping[Path, tuple[int, int]],
    sockets: Set[Path],
) -> dict[Path, OSError]:
    """Overlay what has stores, and put back what is hidden by that."""
    laid: list[Path] = []
    refused = {}
    for path in sorted(below):  # outermost first
        if path in stores:
            try:
                _lay(libc, path, below[path], *stores[path])
                laid.append(path)
                continue
            except OSError as problem:
                refused[path] = problem
        if any(each in path.parents for each in laid):
            # A socket may be gone by now.
            with contextlib.suppress(*([OSError] if path in sockets else [])):
                _bind(libc, below[path], path)
    return refused


def mounts() -> list[Path]:
    """Return where file systems with files are mounted, outermost first."""
    found = {point for point, kind in _mounts() if kind not in _PSEUDO}
    return sorted(found)


def other_namespace(pid: int) -> int | None:
    """Return a descriptor of the mount namespace of a process.

    None if it is that of this process, or if there is no such process of this user. While the
    descriptor is open, the kernel gives the number of the namespace to no other one.
    """
    try:
        descriptor = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    if os.path.samestat(os.stat(descriptor), os.stat("/proc/self/ns/mnt")):
        os.close(descriptor)
        return None
    return descriptor


def kill_processes_in(namespace: int) -> None:
    """Kill all processes of this user in the mount namespace of a descriptor, and see them end."""
    known = os.stat(namespace)
    for pid in (int(entry) for entry in os.listdir("/proc") if entry.isdigit()):
        with contextlib.suppress(ProcessLookupError, PermissionError, FileNotFoundError):
            process = os.pidfd_open(pid)  # so that nobody else gets its number meanwhile
            try:
                if os.path.samestat(os.stat(f"/proc/{pid}/ns/mnt"), known):
                    signal.pidfd_send_signal(process, signal.SIGKILL)
                    select.select([process], [], [], _DYING_S)
            finally:
                os.close(process)


def _lay(libc: ctypes.CDLL, path: Path, below: int, upper: int, work: int) -> None:
    # Paths may have commas, which separate options.
    named = (("lowerdir", below), ("upperdir", upper), ("workdir", work))
    options = ",".join(f"{option}=/proc/self/fd/{descriptor}" for option, descriptor in named)
    # The first lets directories of before be renamed; the last is for users who are not root.
    for more in (",redirect_dir=on", "", ",userxattr"):
        try:
            return _mount(libc, "overlay", path, "overlay", 0, options + more)
        except OSError as problem:
            refused = problem
    raise refused


def _bind(libc: ctypes.CDLL, descriptor: int, path: Path) -> None:
    is_folder = stat.S_ISDIR(os.stat(descriptor).st_mode)
    flags = _MS_BIND | (_MS_REC if is_folder else 0)
    _mount(libc, f"/proc/self/fd/{descriptor}", path, None, flags, None)


def _copy_files(mounted: Sequence[int], upper: Path) -> None:
    """Let the descriptors of small files that are mounted be those of copies, beside `upper`."""
    for number, descriptor in enumerate(mounted):
        facts = os.stat(descriptor)
        if stat.S_ISREG(facts.st_mode) and facts.st_size <= _MOST_COPIED_BYTES:
            copy = upper.parent / f"file-{number}"
            try:
                shutil.copy(f"/proc/self/fd/{descriptor}", copy)
            except PermissionError:
                continue  # nor can it be written
            opened = os.open(copy, os.O_PATH)
            os.dup2(opened, descriptor)
            os.close(opened)


def _mounted_below(directories: Iterable[Path]) -> list[Path]:
    return [point for point, _ in _mounts() if any(each in point.parents for each in directories)]


def _sockets_below(directories: Iterable[Path]) -> set[Path]:
    """Return the sockets that somebody has opened there: none is reached through an overlay."""
    with open(_SOCKETS, encoding="utf-8", errors="surrogateescape") as lines:
        fields = [line.rstrip("\n").split(None, 7) for line in lines]
    paths = {Path(each[7]) for each in fields if len(each) == 8 and each[7].startswith("/")}
    inside = (path for path in paths if any(each in path.parents for each in directories))
    # Another file may have its name by now.
    return set(itertools.islice(filter(Path.is_socket, inside), _MOST_SOCKETS))


def _open(path: Path, opened: contextlib.ExitStack) -> int:
    """Return a descriptor of what is at a path now."""
    descriptor = os.open(path, os.O_PATH)
    opened.callback(os.close, descriptor)
    return descriptor


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
