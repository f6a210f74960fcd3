"""Stay as the parent of the job: same process group and terminal; pass signals on, end alike."""

from __future__ import annotations

import json
import os
import resource
import signal
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple, NoReturn

from tfprobe.errors import TfprobeError
from tfprobe.launch.run_directory import write_file
from tfprobe.printable import printable
from tfprobe.runs.layout import RunFolder

# These are about this process itself, or cannot be waited for.
_OURS = {
    signal.SIGKILL,
    signal.SIGSTOP,
    signal.SIGABRT,
    signal.SIGBUS,
    signal.SIGFPE,
    signal.SIGILL,
    signal.SIGPIPE,
    signal.SIGSEGV,
    signal.SIGSYS,
    signal.SIGTRAP,
    # The terminal stops the whole group, us included, which is what the shell expects.
    signal.SIGTTIN,
    signal.SIGTTOU,
}
# siginfo codes above zero come from the kernel, which is how the terminal signals a whole group:
# the job has had that one already.
_FROM_A_PROCESS = 0


class Ended(NamedTuple):
    """A child that has ended, and its wait status."""

    pid: int
    status: int


def watch(become_job: Callable[[], NoReturn]) -> Ended:
    """Run `become_job` in a child and wait for it. Give the child and its wait status.

    No handler is installed: the signals are blocked here and taken one by one, so none is lost
    and the child starts with the dispositions and the mask this process was given.
    """
    watched = signal.valid_signals() - _OURS
    # An inherited SIG_IGN would make the kernel throw the exit status away.
    inherited_chld = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    inherited_mask = signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    try:
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGCHLD, inherited_chld)
            _be_child(become_job, inherited_mask)
        return Ended(child, _wait(child, watched))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, inherited_mask)


def mirror(status: int) -> int:
    """End as the job ended: give its exit status, or die by the same signal."""
    if not os.WIFSIGNALED(status):
        return os.WEXITSTATUS(status)
    number = os.WTERMSIG(status)
    # One core dump, that of the job, is enough.
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)
    # As PID 1 of a container a process survives its own signals; a shell would say this.
    return 128 + number


def _be_child(become_job: Callable[[], NoReturn], mask: Iterable[int]) -> NoReturn:
    status = 1
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        become_job()
    except TfprobeError as problem:
        status = problem.exit_code
        os.write(2, f"tfprobe: {printable(str(problem))}\n".encode())
    except KeyboardInterrupt:
        status = 128 + signal.SIGINT
    finally:
        # Never back into the parent's code: what it does at exit is not this process's to do.
        os._exit(status)


def _wait(child: int, watched: Iterable[int]) -> int:
    while True:
        received = signal.sigwaitinfo(watched)
        if received.si_signo == signal.SIGCHLD:
            status = _reap(child)
            if status is not None:
                return status
            continue
        if received.si_code <= _FROM_A_PROCESS:
            os.kill(child, received.si_signo)
        if received.si_signo == signal.SIGTSTP:
            os.kill(os.getpid(), signal.SIGSTOP)


def _reap(child: int) -> int | None:
    """Collect every ended child: as PID 1 of a container the orphans are ours too."""
    while True:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return None
        if pid == child:
            return status


def write_exit(run: RunFolder, pid: int, wait_status: int) -> None:
    """Write launches/<host>-<pid>.exit.json. Raises OSError."""
    host = os.uname().nodename
    by_signal = os.WIFSIGNALED(wait_status)
    document = {
        "schema": "tfprobe.exit/1",
        "host": host,
        "pid": pid,
        "status": None if by_signal else os.WEXITSTATUS(wait_status),
        "signal": os.WTERMSIG(wait_status) if by_signal else None,
        "unix_ns": time.time_ns(),
    }
    run.launches.mkdir(mode=0o700, exist_ok=True)
    name = f"{host}-{pid}".replace("/", "_").lstrip(".")
    path = run.launches / f"{name}.exit.json"
    write_file(path, (json.dumps(document, indent=1) + "\n").encode())
