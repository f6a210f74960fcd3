"""Become the job: exec as a shell would, with the dispositions and statuses a shell would give."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from typing import NoReturn

from tfprobe.errors import TfprobeError

# Python ignores these for itself at start-up, and an ignored signal stays ignored across exec.
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)


class CommandNotFound(TfprobeError):
    """No file of that name: exit 127, as a shell."""

    exit_code = 127


class CannotExecute(TfprobeError):
    """The file is there but the kernel will not run it: exit 126, as a shell."""

    exit_code = 126


class TooLong(CannotExecute):
    """Arguments and environment together are more than the kernel takes."""


def locate(name: str, environment: Mapping[str, str]) -> str:
    """Give the first file of that name as PATH finds it. Raises CommandNotFound."""
    for path in _candidates(name, environment):
        if os.path.exists(path):
            return path
    raise _not_found(name)


def become(command: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    """Replace this process by the command. Return never; raise CommandNotFound or CannotExecute."""
    for number in _IGNORED_BY_PYTHON:
        signal.signal(number, signal.SIG_DFL)
    refusal: tuple[str, OSError] | None = None
    for path in _candidates(command[0], environment):
        try:
            _exec(path, command, environment)
        except (FileNotFoundError, NotADirectoryError) as exc:
            if os.path.lexists(path):
                refusal = refusal or (path, exc)
        except OSError as exc:
            refusal = refusal or (path, exc)
    if refusal is None:
        raise _not_found(command[0])
    path, reason = refusal
    if isinstance(reason, FileNotFoundError):
        raise CommandNotFound(f"{path}: cannot execute: required file not found") from reason
    refused = TooLong if reason.errno == errno.E2BIG else CannotExecute
    raise refused(_why(path, reason)) from reason


def _exec(path: str, command: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    try:
        os.execve(path, list(command), dict(environment))
    except OSError as exc:
        if exc.errno != errno.ENOEXEC or _is_binary(path):
            raise
    # No `#!` line: POSIX shells and execvp run such a file with sh.
    os.execve("/bin/sh", ["/bin/sh", path, *command[1:]], dict(environment))


def _candidates(name: str, environment: Mapping[str, str]) -> Iterator[str]:
    if "/" in name:
        yield name
        return
    for folder in environment.get("PATH", os.defpath).split(os.pathsep):
        yield os.path.join(folder or ".", name)


def _is_binary(path: str) -> bool:
    """Tell a program for another machine from a script, as bash does: a NUL in its first bytes."""
    with open(path, "rb") as file:
        return b"\0" in file.read(80)


def _not_found(name: str) -> CommandNotFound:
    if "/" in name:
        return CommandNotFound(f"{name}: No such file or directory")
    return CommandNotFound(f"{name}: command not found")


def _why(path: str, reason: OSError) -> str:
    if os.path.isdir(path):
        return f"{path}: Is a directory"
    if reason.errno == errno.ENOEXEC:
        return f"{path}: cannot execute binary file: {reason.strerror}"
    return f"{path}: {reason.strerror}"


# A directory that has all three is a boot directory, whoever wrote it.
BOOT_MARKS = ("config.json", "sitecustomize.py", "tfprobe_agent")


def with_boot(boot: str, inherited: str | None) -> str:
    """Put `boot` before the inherited entries, dropping boot directories of outer launches.

    An empty element means the current directory to Python, so those of the user stay and none is
    added; an empty variable means the same as none.
    """
    entries = inherited.split(os.pathsep) if inherited else []
    kept = [entry for entry in entries if not is_boot(entry)]
    return os.pathsep.join([boot, *kept])


def is_boot(entry: str) -> bool:
    """Tell whether a PYTHONPATH entry is the boot directory of some run."""
    return entry != "" and all(os.path.exists(os.path.join(entry, mark)) for mark in BOOT_MARKS)
