"""Make a run directory that the agent can write into. Nothing here touches the job."""

from __future__ import annotations

import itertools
import json
import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tfprobe
from tfprobe.errors import TfprobeError
from tfprobe.launch import environ, ownership, run_directory, secrets
from tfprobe.launch.joining import Agreed
from tfprobe.launch.run_directory import write_boot, write_file
from tfprobe.launch.settings import Settings
from tfprobe.runs import agent_files, proc
from tfprobe.runs.layout import RunFolder

_INTERPRETERS = re.compile(r"(python|pypy)[\d.]*|bash|dash|sh|zsh|env|time|nice|nohup|mpirun|srun")
# Long enough to tell jobs apart in `tfprobe ls`, short enough for a path.
_NAME_LENGTH = 40
_ATTEMPTS = 100


class CannotPrepare(TfprobeError):
    """The run directory could not be made: the job runs unrecorded."""


@dataclass(frozen=True, slots=True)
class PreparedRun:
    """A run directory on disk, complete but for run.json.

    `is_shared` where other launches of the same job record into it, too; `note` is what a person
    should know about how it came to be.
    """

    folder: RunFolder
    started_unix_ns: int
    is_shared: bool = False
    note: str = ""


def prepare(
    settings: Settings,
    command: Sequence[str],
    *,
    agreed: Agreed | None = None,
    environment: Mapping[str, str] | None = None,
) -> PreparedRun:
    """Create the run directory with its boot directory, or join the one that was agreed on.

    Raises CannotPrepare, leaving nothing, also where other users could change what is made there.
    """
    try:
        note = _make_output(settings.output, environment or {})
        if agreed is not None:
            shared = _join(settings, agreed)
            if isinstance(shared, PreparedRun):
                return replace(shared, note=note)
            note = f"{note} {shared}".strip()
        run = _claim(settings.output, command)
    except OSError as exc:
        raise _refused(settings.output, exc) from exc
    try:
        write_boot(run.folder, settings.config())
    except OSError as exc:
        discard(run)
        raise _refused(run.folder.root, exc) from exc
    return replace(run, note=note)


def publish(
    run: PreparedRun, settings: Settings, command: Sequence[str], env: Mapping[str, str]
) -> None:
    """Write run.json from the process that becomes the job. Raises CannotPrepare."""
    manifest = _manifest(run, settings, command, env)
    try:
        if run.is_shared:
            from tfprobe.launch import joining

            joining.publish(run.folder, manifest)
        else:
            write_file(run.folder.manifest, (json.dumps(manifest, indent=1) + "\n").encode())
    except OSError as exc:
        discard(run)
        raise _refused(run.folder.root, exc) from exc


def discard(run: PreparedRun) -> None:
    """Remove a run directory in which nothing was recorded; one that others may be in stays."""
    import shutil

    if not run.is_shared:
        shutil.rmtree(run.folder.root, ignore_errors=True)


def command_name(command: Sequence[str]) -> str:
    """Name a run after its script or module: `python -m pkg.train --lr 1` is `pkg.train`."""
    words = [os.path.basename(word.rstrip("/")) for word in command]
    name = words[0]
    for before, word in itertools.pairwise(words):
        if not _INTERPRETERS.fullmatch(name) or word in ("-c", "-"):
            break
        if not word.startswith("-") and "=" not in word and before not in ("-W", "-X"):
            name = word
    stem = name.rsplit(".", 1)[0] if name.endswith((".py", ".pyc", ".sh", ".zip", ".pyz")) else name
    return re.sub(r"[^A-Za-z0-9._]+", "-", stem).strip("-.")[:_NAME_LENGTH] or "command"


def run_id(name: str, now_ns: int) -> str:
    """Return a new id: UTC time, name, random."""
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(now_ns // 10**9))
    return f"{stamp}-{name}-{os.urandom(3).hex()}"


def utc(now_ns: int) -> str:
    """Write a moment as manifests have it."""
    return time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(now_ns // 10**9))


def user() -> str:
    """Return who runs this, by name where the number has one."""
    try:
        import pwd

        return pwd.getpwuid(os.getuid()).pw_name
    except (ImportError, KeyError):
        # A container may run under a number that has no name.
        return str(os.getuid())


def _join(settings: Settings, agreed: Agreed) -> PreparedRun | str:
    """Return the run that is shared, or why there must be one of its own. Raises OSError."""
    # Imported here: most launches share nothing.
    from tfprobe.launch import joining

    now_ns = time.time_ns()
    try:
        folder = joining.enter(Path(settings.output), agreed, settings.config())
    except (joining.OtherSettings, ValueError):
        return (
            f"run {agreed.name}, which the other launches of this job share, traces other steps "
            "than this launch; this launch gets a run of its own."
        )
    return PreparedRun(RunFolder(folder.root), now_ns, is_shared=True)


def _claim(output: str, command: Sequence[str]) -> PreparedRun:
    name = command_name(agent_files.mask_arguments(command))
    for _ in range(_ATTEMPTS):
        now_ns = time.time_ns()
        path = Path(output, run_id(name, now_ns))
        try:
            run_directory.make_directory(path)
        except FileExistsError:
            continue
        return PreparedRun(RunFolder(path), now_ns)
    raise FileExistsError(f"no free name after {_ATTEMPTS} attempts")


def _manifest(
    run: PreparedRun, settings: Settings, command: Sequence[str], environment: Mapping[str, str]
) -> dict[str, Any]:
    return {
        "schema": "tfprobe.run/1",
        "id": run.folder.id,
        "command": agent_files.mask_arguments(command),
        "cwd": environ.working_directory(),
        "host": os.uname().nodename,
        "user": user(),
        "pid": os.getpid(),
        "boot_id": proc.boot_id(),
        "pid_namespace": proc.pid_namespace(),
        "pid_started_ticks": proc.started_ticks(os.getpid()),
        "started_unix_ns": run.started_unix_ns,
        "started": utc(run.started_unix_ns),
        "tfprobe": tfprobe.__version__,
        "config": settings.config(),
        "environment": secrets.recorded_environment(environment),
        "name": None if settings.name is None else agent_files.mask_text(settings.name),
        "tags": secrets.masked(settings.tags),
    }


def _make_output(output: str, environment: Mapping[str, str]) -> str:
    """Make the directory of all runs; return what a person should know about it.

    Raises OSError, and CannotPrepare where it is another user's: the job loads code from there.
    """
    # Parents get the usual mode: only what holds recordings is closed to others.
    os.makedirs(output, mode=0o700, exist_ok=True)
    problem = ownership.directory_problem(output, environment)
    if problem is not None:
        raise CannotPrepare(
            f"cannot record to {output}: it {problem}, who could change what the job loads.",
            hint="Choose a directory of your own with -o.",
        )
    open_to_all = ownership.writable_by_others(output)
    if open_to_all is None:
        return ""
    return (
        f"other users can write to {open_to_all} and so change the code that this job loads from "
        f"{output}; `chmod go-w` or `chmod +t` prevents that."
    )


def _refused(path: str | Path, reason: OSError) -> CannotPrepare:
    return CannotPrepare(
        f"cannot record to {path}: {reason.strerror or reason}.",
        hint="Choose another directory with -o.",
    )
