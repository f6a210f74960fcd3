"""Start the processes that accompany a job: the GPU monitor and the sampler of stacks."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

import tfprobe
from tfprobe.runs import safe_files
from tfprobe.runs.layout import RunFolder

LIBRARY = "libnvidia-ml.so.1"
_PR_GET_CHILD_SUBREAPER = 37


def meter(run: RunFolder, environment: Mapping[str, str], *, is_shared: bool) -> None:
    """Start a meter for the job that this process is about to become, if there is any need.

    Of the launches that share a run the first on each host does.
    """
    if os.getpid() == 1 or not sys.executable or not _has_driver() or _adopts_orphans():
        return
    if is_shared and not _is_first(run.machine(os.uname().nodename)):
        return
    _leave(
        "tfprobe.attach.meter", [str(run.root), os.uname().nodename, str(os.getpid())], environment
    )


def sampler(
    run: RunFolder, environment: Mapping[str, str], program: str, *, is_shared: bool
) -> int | None:
    """Start a sampler that runs `program` (py-spy) during the job; return its pid.

    None where the job would become its parent. Each launch of a shared run has its own.
    """
    if os.getpid() == 1 or not sys.executable or _adopts_orphans():
        return None
    share = "shared" if is_shared else "own"
    arguments = [str(run.root), os.uname().nodename, str(os.getpid()), program, share]
    return _leave("tfprobe.attach.sampler", arguments, environment)


def _leave(module: str, arguments: list[str], environment: Mapping[str, str]) -> int | None:
    """Start `python -m MODULE ARGUMENTS` as nobody's child; return its pid, None if that failed."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        _fork_again([sys.executable, "-m", module, *arguments], environment, writer)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        pid = file.read()
    try:
        os.waitpid(child, 0)
    except ChildProcessError:
        pass  # SIGCHLD is ignored: the kernel has waited for it
    return int(pid) if pid else None


def _is_first(path: Path) -> bool:
    run = path.parents[1]
    try:
        with safe_files.directory(run, path.parent, make=True):
            os.close(safe_files.opened(run, path, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def _has_driver() -> bool:
    """Tell whether NVML can be loaded. Without ctypes, whose import every job would wait for."""
    try:
        import _ctypes

        _ctypes.dlclose(_ctypes.dlopen(LIBRARY, os.RTLD_LAZY))
    except (ImportError, OSError, AttributeError):
        return False
    return True


def _adopts_orphans() -> bool:
    """Tell whether orphans below this process become its children, which lasts across exec."""
    import ctypes

    answer = ctypes.c_int()
    failed = ctypes.CDLL(None).prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(answer), 0, 0, 0)
    return bool(failed or answer.value)


def _fork_again(command: list[str], environment: Mapping[str, str], writer: int) -> NoReturn:
    try:
        os.setsid()
        grandchild = os.fork()
        if grandchild == 0:
            os.close(writer)
            _become(command, environment)
        os.write(writer, str(grandchild).encode())
    finally:
        os._exit(0)


def _become(command: list[str], environment: Mapping[str, str]) -> NoReturn:
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    # Nothing of the job's: not its directory, its descriptors, nor our own recording by another.
    os.chdir("/")
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        _close_on_exec(descriptor)
    package = str(Path(tfprobe.__file__).resolve().parent.parent)
    os.execve(command[0], command, {**environment, "PYTHONPATH": package})


def _close_on_exec(descriptor: int) -> None:
    try:
        os.set_inheritable(descriptor, descriptor <= 2)
    except OSError:
        pass  # the one that the directory was listed with


_INSTALL = "`pip install 'tfprobe[stacks]'` installs it"


def start_stack_sampler(
    run: RunFolder, environment: Mapping[str, str], *, is_shared: bool
) -> tuple[dict[str, str], str]:
    """Start it; return variables for the job's children, and why there is none, or "".

    This process is about to become the job, and allows the sampler to read it.
    """
    # Imported here: ctypes takes longer to import than the rest of a launch.
    from tfprobe.launch import ptrace

    program = find_reader(environment)
    if program is None:
        return {}, f"py-spy was not found; {_INSTALL}"
    refusal = ptrace.refusal()
    if refusal is not None:
        return {}, refusal
    pid = sampler(run, environment, program, is_shared=is_shared)
    if pid is None:
        return {}, "here the sampler would become a child of the job"
    if not ptrace.needs_permission():
        return {}, ""
    ptrace.allow(pid)
    return {ptrace.VARIABLE: str(pid)}, ""


def find_reader(environment: Mapping[str, str]) -> str | None:
    """Return py-spy: the one next to the Python of tfprobe, or the first on PATH."""
    path = environment.get("PATH", "")
    folders = [os.path.dirname(sys.executable), *filter(None, path.split(os.pathsep))]
    candidates = (Path(folder, "py-spy") for folder in folders)
    return next((str(candidate) for candidate in candidates if os.access(candidate, os.X_OK)), None)
