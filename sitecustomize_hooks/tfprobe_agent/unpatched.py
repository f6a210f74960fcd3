"""The clocks and file functions that the agent uses, bound when the interpreter starts.

A job may mock `time` or `os` later (unittest.mock, freezegun, gevent). The functions are attributes of one object, not
module globals, because freezegun replaces module globals wherever it finds them.
"""

import os
import sys
import time
from _thread import _local


def _monotonic_ns_36(monotonic=time.monotonic):
    return int(monotonic() * 1e9)


def _unix_ns_36(unix=time.time):
    return int(unix() * 1e9)


def _process_time_ns_36(process_time=time.process_time):
    return int(process_time() * 1e9)


class _Unpatched:
    """Functions of the operating system, as they were before any code of the job ran."""

    # CLOCK_MONOTONIC on Linux, where perf_counter_ns reads the same clock.
    monotonic_ns = staticmethod(getattr(time, "monotonic_ns", _monotonic_ns_36))
    # The same clock as a function written in C, and how many ns its unit has.
    c_clock, c_clock_unit_ns = (time.monotonic_ns, 1) if hasattr(time, "monotonic_ns") else (time.monotonic, 1e9)
    # CPU time of the calling thread; not in Python 3.6.
    thread_time_ns = staticmethod(getattr(time, "thread_time_ns", None))
    unix_ns = staticmethod(getattr(time, "time_ns", _unix_ns_36))
    process_time_ns = staticmethod(getattr(time, "process_time_ns", _process_time_ns_36))
    clock_gettime = staticmethod(getattr(time, "clock_gettime", None))
    # Not in Python 3.6.
    pthread_getcpuclockid = staticmethod(getattr(time, "pthread_getcpuclockid", None))
    open = staticmethod(os.open)
    read = staticmethod(os.read)
    write = staticmethod(os.write)
    close = staticmethod(os.close)
    mkdir = staticmethod(os.mkdir)
    rename = staticmethod(os.rename)
    unlink = staticmethod(os.unlink)
    rmdir = staticmethod(os.rmdir)
    chmod = staticmethod(os.chmod)
    isdir = staticmethod(os.path.isdir)
    isfile = staticmethod(os.path.isfile)
    listdir = staticmethod(os.listdir)
    readlink = staticmethod(os.readlink)
    stat = staticmethod(os.stat)
    fstat = staticmethod(os.fstat)
    getpid = staticmethod(os.getpid)
    getppid = staticmethod(os.getppid)
    ftruncate = staticmethod(os.ftruncate)
    fallocate = staticmethod(getattr(os, "posix_fallocate", None))
    pread = staticmethod(os.pread)
    sleep = staticmethod(time.sleep)
    pwrite = staticmethod(os.pwrite)
    uname = staticmethod(os.uname)
    sysconf = staticmethod(os.sysconf)
    getloadavg = staticmethod(os.getloadavg)
    sched_getaffinity = staticmethod(getattr(os, "sched_getaffinity", None))
    getprofile = staticmethod(sys.getprofile)
    setprofile = staticmethod(sys.setprofile)
    # Local to a thread; gevent and eventlet replace it by what is local to a greenlet.
    local = _local


UNPATCHED = _Unpatched()


class OpenFile:
    """A file of the agent that stays open.

    A job may close every descriptor that it does not know, as daemons do, and open its own files under the same
    numbers. So the descriptor is verified before each use; otherwise the agent would write into the job's files.
    """

    def __init__(self, path, flags):
        self._descriptor = UNPATCHED.open(path, flags | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._identity = self._identify()

    def descriptor(self):
        """Return the descriptor; raise OSError if the job has closed it."""
        if self._identify() != self._identity:
            raise OSError(9, "the job closed this file")  # EBADF, without a module the job has not imported
        return self._descriptor

    def _identify(self):
        status = UNPATCHED.fstat(self._descriptor)
        return status.st_dev, status.st_ino


def write_all(descriptor, data):
    """Write all of `data`; os.write may stop early on signals and pipes."""
    view = memoryview(data)
    while view:
        view = view[UNPATCHED.write(descriptor, view) :]


def read_file(path, limit_bytes=1 << 20):
    """Return the content of a small file."""
    descriptor = UNPATCHED.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        while limit_bytes > 0:
            part = UNPATCHED.read(descriptor, min(65536, limit_bytes))
            if not part:
                break
            parts.append(part)
            limit_bytes -= len(part)
        return b"".join(parts)
    finally:
        UNPATCHED.close(descriptor)
