"""The process folder: who this process is, its event logs, and files written whole. This process is its only writer."""

import os
import sys
import threading
from collections import deque

# Bound now: the job may mock json.dumps later.
from json import dumps

from tfprobe_agent import ranks, redact
from tfprobe_agent.boot import INTERPRETER_PID
from tfprobe_agent.config import notebook_path, rank_variables
from tfprobe_agent.interruptions import let_through
from tfprobe_agent.notebooks import notebook
from tfprobe_agent.unpatched import UNPATCHED, OpenFile, read_file, write_all

from . import framework

AGENT_VERSION = 1

# TensorFlow writes a profiler window into a directory of this name and the thread's number, in the captures folder.
WINDOW = ".tmp-window-"
# On a slow disk, where one write takes this long, writing lines may take this part of the time.
SHARE = 100
SLOW_NS = 100 * 1000 * 1000
# Lines of one file may wait for a disk up to this size; of those beyond it only the number is written.
WAITING_BYTES = 1 << 22
# CLOCK_BOOTTIME of Linux, which Python has a name for from 3.7 on.
_BOOT_CLOCK = 7


class ProcessDir:
    """An open process folder."""

    def __init__(self, run_directory, started_unix_ns, parent=None):
        self.host = _safe_name(UNPATCHED.uname().nodename) or "unknown-host"
        self.pid = UNPATCHED.getpid()
        self.started_unix_ns = started_unix_ns
        self.parent = parent
        self.devices = None
        self.rank = None
        self.rank_variables = {}  # as they were: a job may remove its own, or set one late
        self.directory = self._make_directory(run_directory)
        self.name = os.path.basename(self.directory)
        for part in ("captures", "graphs", "code"):
            UNPATCHED.mkdir(os.path.join(self.directory, part), 0o700)
        self._logs = {}
        self._lost = 0  # lines for which there was no room to wait
        self._resting_until_ns = 0
        self._log("events.jsonl")

    def _make_directory(self, run_directory):
        host_directory = os.path.join(run_directory, self.host)
        try:
            UNPATCHED.mkdir(host_directory, 0o700)
        except FileExistsError:
            let_through()  # another process of this host was first
        stem = os.path.join(host_directory, "%d-%d" % (self.pid, self.started_unix_ns // 1000000))
        for suffix in ("",) + tuple("-%d" % number for number in range(2, 100)):
            try:
                UNPATCHED.mkdir(stem + suffix, 0o700)
            except FileExistsError:
                let_through()
                continue  # same pid in another pid namespace, same millisecond
            return stem + suffix
        raise FileExistsError(stem)

    def path(self, *parts):
        """Return the path of a file in the folder."""
        return os.path.join(self.directory, *parts)

    def remove_windows(self):
        """Remove the directories that TensorFlow wrote its profiler windows into."""
        captures = self.path("captures")
        for name in UNPATCHED.listdir(captures):
            if name.startswith(WINDOW):
                remove_tree(os.path.join(captures, name))

    def event(self, event, **fields):
        """Append one event."""
        record = {"unix_ns": UNPATCHED.unix_ns(), "mono_ns": UNPATCHED.monotonic_ns(), "event": event}
        record.update(fields)
        self.append("events.jsonl", record)

    def append(self, name, *records):
        """Append lines to a log of the folder with one write; on a slow disk they wait for later ones."""
        lines = "".join([dumps(record) + "\n" for record in records]).encode("utf-8")
        if not self._log(name).takes(lines):
            self._lost += len(records)
        began_ns = UNPATCHED.monotonic_ns()
        if began_ns >= self._resting_until_ns:
            self.write_lines()
            took_ns = UNPATCHED.monotonic_ns() - began_ns
            if took_ns > SLOW_NS:
                self._resting_until_ns = began_ns + took_ns * SHARE

    def write_lines(self):
        """Write all waiting lines. Without room they go on waiting, while the counts in steps.bin go on."""
        for log in list(self._logs.values()):
            log.write()
        if self._lost and not any([log.waiting_bytes for log in list(self._logs.values())]):
            lost, self._lost = self._lost, 0
            self.event("error", where="writing lines", what="%d lines found no room" % lost)

    def _log(self, name):
        log = self._logs.get(name)
        if log is None:
            log = self._logs.setdefault(name, _Log(self.path(name)))
        return log

    def write_file(self, data, *parts):
        """Write a file of the folder whole: under a temporary name, then renamed. Return its size in bytes."""
        path = self.path(*parts)
        temporary = os.path.join(os.path.dirname(path), ".tmp-%d-%s" % (threading.get_ident(), os.path.basename(path)))
        descriptor = UNPATCHED.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            write_all(descriptor, data)
        except BaseException:
            UNPATCHED.unlink(temporary)  # a full disk gets its bytes back
            raise
        finally:
            UNPATCHED.close(descriptor)
        UNPATCHED.rename(temporary, path)
        return len(data)

    def write_process(self):
        """Write process.json; again when devices become known, and possibly a cluster with them."""
        self.rank_variables.update(rank_variables())
        self.rank = ranks.rank(self.rank_variables, [device["name"] for device in self.devices or ()])
        arguments = command_line()
        ticks = _pid_started_ticks()
        document = {
            "schema": "tfprobe.process/1",
            "agent": AGENT_VERSION,
            "host": self.host,
            "pid": self.pid,
            "ppid": UNPATCHED.getppid(),
            "pgid": os.getpgrp(),
            "uid": os.getuid(),
            "started_unix_ns": self.started_unix_ns,
            "parent": self.parent,
            "boot_id": _first_line("/proc/sys/kernel/random/boot_id"),
            "pid_namespace": _target("/proc/self/ns/pid"),
            "pid_started_ticks": ticks,
            "pid_started_mono_ns": _monotonic_ns(ticks),
            "argv": redact.arguments(arguments),
            "program": redact.arguments(_program(arguments)),
            "notebook": notebook(notebook_path()),
            "interpreter_pid": INTERPRETER_PID,
            "executable": sys.executable,
            "prefix": sys.prefix,
            "python": ".".join(str(part) for part in sys.version_info[:3]),
            "implementation": sys.implementation.name,
            "tensorflow": tensorflow_version(),
            "keras": _version_of("keras") or _version_of("tf_keras"),
            "wrapt": _version_of("wrapt"),
            "frameworks": framework.versions(),
            "devices": self.devices,
            "rank": self.rank,
        }
        self.write_file(dumps(document, indent=1).encode("utf-8"), "process.json")


class _Log:
    """A file of lines, created with its first line, and the lines that wait for it."""

    def __init__(self, path):
        self._path = path
        self._file = None
        self._waiting = deque()
        self.waiting_bytes = 0

    def takes(self, lines):
        """Add lines to those that wait; return whether memory has room for them."""
        if self.waiting_bytes > WAITING_BYTES:
            return False
        self.waiting_bytes += len(lines)
        self._waiting.append(lines)
        return True

    def write(self):
        """Write the waiting lines with one write, so that lines of several threads do not mix."""
        taken = []
        try:
            while self._waiting:
                taken.append(self._waiting.popleft())
        except IndexError:
            let_through()  # another thread took the last one in between
        data = b"".join(taken)
        try:
            if data and self._file is None:
                self._file = OpenFile(self._path, os.O_WRONLY | os.O_APPEND)
            while data:
                data = data[UNPATCHED.write(self._file.descriptor(), data) :]
        except OSError:
            let_through()
            # disk full, or closed by the job; a line cut in half continues where it stopped
            self._waiting.appendleft(data)
        self.waiting_bytes = len(data)


def remove_tree(directory):
    """Remove a directory and its contents. The job may mock os.walk and shutil."""
    for name in UNPATCHED.listdir(directory):
        path = os.path.join(directory, name)
        if UNPATCHED.isdir(path):
            remove_tree(path)
        else:
            UNPATCHED.unlink(path)
    UNPATCHED.rmdir(directory)


def tensorflow_version():
    """Return TensorFlow's version without importing anything, or None while it is not known yet."""
    versions = sys.modules.get("tensorflow.python.framework.versions")
    return getattr(versions, "VERSION", None) or _version_of("tensorflow")


def _version_of(package):
    version = getattr(sys.modules.get(package), "__version__", None)
    return version if isinstance(version, str) else None


def command_line():
    """Return the command line; sys.argv does not exist yet while a module named by -m is being found."""
    original = getattr(sys, "orig_argv", None)
    if original:
        return [str(argument) for argument in original]
    try:
        return [part.decode("utf-8", "replace") for part in read_file("/proc/self/cmdline").split(b"\0")[:-1]]
    except OSError:
        let_through()
        return [str(argument) for argument in getattr(sys, "argv", [])]


def _program(arguments):
    """Return the command that a process started by multiprocessing or joblib for a function belongs to."""
    own = [str(argument) for argument in getattr(sys, "argv", [])]
    return own if is_spawned(arguments) and own[:1] != ["-c"] else []


def is_spawned(arguments):
    """Return whether a command line is that of a process started by multiprocessing or joblib for a function."""
    return any([argument.startswith("from multiprocessing.") or "loky.backend" in argument for argument in arguments])


def _first_line(path):
    try:
        return read_file(path).decode("ascii", "replace").strip() or None
    except OSError:
        let_through()
        return None  # not Linux, or no /proc in this container


def _target(path):
    try:
        return UNPATCHED.readlink(path)
    except OSError:
        let_through()
        return None


def _pid_started_ticks():
    """Return field 22 of /proc/self/stat, which with the pid identifies a process for good. None without /proc."""
    try:
        return int(read_file("/proc/self/stat").rpartition(b")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        let_through()
        return None


def _monotonic_ns(ticks):
    """Return the monotonic time of a number of ticks since boot; ticks go on while the machine sleeps."""
    try:
        asleep_ns = int(UNPATCHED.clock_gettime(_BOOT_CLOCK) * 1e9) - UNPATCHED.monotonic_ns()
        return ticks * 1000 * 1000 * 1000 // UNPATCHED.sysconf("SC_CLK_TCK") - asleep_ns
    except (OSError, ValueError, TypeError, ZeroDivisionError):
        let_through()
        return None


def _safe_name(text):
    return "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in text).lstrip(".")
