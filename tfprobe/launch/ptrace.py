"""Say whether the kernel lets one process read another's memory, and allow one to read ours."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from tfprobe.runs.proc import PROC

# Documentation/admin-guide/LSM/Yama.rst of Linux.
YAMA = "sys/kernel/yama/ptrace_scope"
RESTRICTED, ADMIN_ONLY, OFF = 1, 2, 3
PR_SET_PTRACER = 0x59616D61
# The children of the job allow the process of this pid, too: what was allowed is not inherited.
VARIABLE = "TFPROBE_PTRACER"
_CAP_SYS_PTRACE = 1 << 19


def refusal(proc: Path = PROC) -> str | None:
    """Return why no process may read the memory of a job; None where one may that it allows."""
    scope = _scope(proc)
    if scope >= OFF:
        return f"the kernel forbids it (/proc/{YAMA} is {scope})"
    if scope == ADMIN_ONLY and not _may_trace(proc):
        return f"the kernel allows it to CAP_SYS_PTRACE alone (/proc/{YAMA} is {scope})"
    if not _can_read_memory():
        return "a filter of system calls (seccomp) forbids it, as in a container without SYS_PTRACE"
    return None


def needs_permission(proc: Path = PROC) -> bool:
    """Say whether a process that is to be read must allow it."""
    return _scope(proc) == RESTRICTED and not _may_trace(proc)


def allow(pid: int) -> None:
    """Allow a process to read this one, across exec; children need permission of their own."""
    ctypes.CDLL(None).prctl(PR_SET_PTRACER, ctypes.c_ulong(pid), 0, 0, 0)


def _scope(proc: Path) -> int:
    try:
        return int((proc / YAMA).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 0  # a kernel without Yama


def _may_trace(proc: Path) -> bool:
    try:
        lines = (proc / "self/status").read_text(encoding="ascii", errors="replace").splitlines()
        effective = next(line.split()[1] for line in lines if line.startswith("CapEff:"))
        return bool(int(effective, 16) & _CAP_SYS_PTRACE)
    except (OSError, ValueError, LookupError, StopIteration):
        return False


def _can_read_memory() -> bool:
    """Read a byte of our own by the call that py-spy reads with."""

    class Part(ctypes.Structure):
        _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))

    source, target = ctypes.create_string_buffer(b"x"), ctypes.create_string_buffer(1)
    local, remote = Part(ctypes.addressof(target), 1), Part(ctypes.addressof(source), 1)
    call = getattr(ctypes.CDLL(None), "process_vm_readv", None)
    if call is None:
        return False
    call.restype = ctypes.c_ssize_t
    call.argtypes = (
        ctypes.c_int,
        ctypes.c_void_p,
        ctypes.c_ulong,
        ctypes.c_void_p,
        ctypes.c_ulong,
        ctypes.c_ulong,
    )
    return bool(call(os.getpid(), ctypes.byref(local), 1, ctypes.byref(remote), 1, 0) == 1)
