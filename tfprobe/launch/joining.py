"""Create or join the run that several launches share. No locks: a rename decides who was first.

Each launch prepares a directory next to the final path and renames it there. Renaming onto an
existing directory fails, also on file servers, and means that another launch was first.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfprobe.errors import Missing, UnreadableInput
from tfprobe.launch import ownership, run_directory, secrets
from tfprobe.launch.grammar import OFF
from tfprobe.launch.run_directory import write_boot
from tfprobe.runs import agent_files, safe_files
from tfprobe.runs.layout import TEMPORARY_PREFIX, RunFolder
from tfprobe.runs.manifests import Launches, read_run
from tfprobe.runs.safe_files import content_of

# The ranks of a job start together, but an image may have to be fetched or a node booted first.
# After this time, a run is joined only if it is known to be running.
OPEN_NS = 10 * 60 * 1_000_000_000
# The requested settings of a launch take a few hundred bytes; a list of steps may be long.
_MOST_BYTES = 1 << 24
# Limit on the runs of one name, from successive jobs.
_MOST_OF_A_NAME = 1000


class OtherSettings(Exception):
    """The shared run traces other steps than this launch requests."""


def enter(output: Path, agreed: Agreed, config: Mapping[str, Any]) -> RunFolder:
    """Return the run of that name, complete except for run.json: the first open one, or a new one.

    Runs of earlier jobs of that name are not changed; the next is called NAME-2, and so on. A run
    belongs to an earlier job if it is over, or if it already contains this launch's rank.

    Raises OtherSettings and OSError, leaving nothing behind.
    """
    for number in range(1, _MOST_OF_A_NAME):
        folder = RunFolder(output / (agreed.name if number == 1 else f"{agreed.name}-{number}"))
        if not os.path.lexists(folder.root) and _make(folder, config):
            return folder
        if _is_open(folder, agreed):
            _check(folder, config)
            return folder
    raise FileExistsError(17, f"there are {_MOST_OF_A_NAME} runs called {agreed.name}")


def publish(folder: RunFolder, manifest: Mapping[str, Any]) -> None:
    """Write run.json, or a launch record if it already exists. Raises OSError."""
    content = (json.dumps(manifest, indent=1) + "\n").encode()
    if _write_once(folder.manifest, content):
        return
    stem = f"{manifest['host']}-{manifest['pid']}".replace("/", "_").lstrip(".")
    names = (stem, *(f"{stem}-{number}" for number in range(2, 100)))
    with safe_files.directory(folder.root, folder.launches, make=True) as launches:
        if any(_write_once(launches / f"{name}.json", content) for name in names):
            return
    raise FileExistsError(17, f"no free name for {stem}.json in {folder.launches}")


def is_running(folder: RunFolder) -> bool:
    """Return whether any part of a run is known to be running on this machine."""
    from tfprobe.runs.catalogue import glance
    from tfprobe.runs.liveness import LIVE, this_machine

    return glance(folder, this_machine()).state in LIVE


def _make(folder: RunFolder, config: Mapping[str, Any]) -> bool:
    """Create the run at that path; return False if another launch was faster."""
    name = f"{TEMPORARY_PREFIX}{os.urandom(4).hex()}-{folder.id}"
    unfinished = RunFolder(folder.root.with_name(name))
    run_directory.make_directory(unfinished.root)
    try:
        write_boot(unfinished, config)
        os.rename(unfinished.root, folder.root)
    except OSError:
        shutil.rmtree(unfinished.root, ignore_errors=True)
        if os.path.lexists(folder.root):
            return False
        raise
    return True


def _is_open(folder: RunFolder, agreed: Agreed) -> bool:
    """Return whether this rank's launch belongs to that run and not to a later job of its name."""
    if not folder.is_run() or not _is_ours(folder):
        return False  # a file, or another user's directory
    if agreed.rank and any(agreed.rank in claims for claims in _claims(folder)):
        return False
    now_ns = time.time_ns()
    if now_ns - _last_launch_ns(folder) < OPEN_NS:
        return True  # before scanning all processes: a thousand ranks may start at once
    # Imported here: steps.bin is read with numpy, and importing that takes as long as a launch.
    from tfprobe.runs.catalogue import glance
    from tfprobe.runs.liveness import LIVE, UNKNOWN, this_machine

    entry = glance(folder, this_machine())
    active_ns = entry.active_unix_ns
    is_active = not isinstance(active_ns, Missing) and now_ns - active_ns < OPEN_NS
    return entry.state in LIVE or (entry.state == UNKNOWN and is_active)


def _is_ours(folder: RunFolder) -> bool:
    """Return whether a run belongs to this user: the job executes the code in its boot/.

    A file server may map all files to one user; then a new directory has the same owner. A link is
    not accepted as a run: its target could change while the job loads code through it.
    """
    owner = ownership.owner(folder.root)
    if folder.root.is_symlink():
        return False
    return owner == os.geteuid() or owner == ownership.owner_of_new(folder.root.parent)


def _claims(folder: RunFolder) -> Iterator[tuple[tuple[str, ...], ...]]:
    """Yield the possible rank identities of each launch so far, without and with its command."""
    launches = [*Launches(folder).known()]
    try:
        launches.append(read_run(folder.manifest))
    except UnreadableInput:
        pass  # the first launch is about to write it
    for launch in launches:
        rank = rank_of(launch.environment)
        yield rank, (*rank, *launch.command)


def _last_launch_ns(folder: RunFolder) -> int:
    """Return when the newest launch recorded itself; run.json follows boot/ within a moment."""
    return max(_modified_ns(folder), default=0)


def _modified_ns(folder: RunFolder) -> Iterator[int]:
    for path in (folder.boot, folder.manifest, folder.launches):
        try:
            yield path.stat().st_mtime_ns
        except OSError:
            continue


def _check(folder: RunFolder, config: Mapping[str, Any]) -> None:
    if json.loads(content_of(folder.config, most_bytes=_MOST_BYTES)) != dict(config):
        raise OtherSettings(folder.root)


def _write_once(path: Path, content: bytes) -> bool:
    """Write a new file atomically; return False if it already exists."""
    unfinished = path.with_name(f"{TEMPORARY_PREFIX}{os.urandom(4).hex()}-{path.name}")
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        os.link(unfinished, path)
    except FileExistsError:
        return False
    except OSError:
        if os.path.lexists(path):
            return False
        os.rename(unfinished, path)  # no links here: if two are equally fast, the second stays
    finally:
        unfinished.unlink(missing_ok=True)
    return True


# Slurm numbers the batch script and interactive shells from here on: they are not tasks.
_FIRST_SPECIAL_STEP = 0xFFFFFFF0
# Variables that differ between the ranks of a job.
_RANKS = (
    "TF_CONFIG",
    "HOROVOD_RANK",
    "OMPI_COMM_WORLD_RANK",
    "MV2_COMM_WORLD_RANK",
    "PMI_RANK",
    "PMIX_RANK",
    "JOB_COMPLETION_INDEX",
)

Variables = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Agreed:
    """The name of a run that several launches share, and the identity of this launch."""

    name: str
    rank: tuple[str, ...]


def agree(join: str | None, environment: Variables, command: Sequence[str]) -> Agreed | None:
    """Return the run to share: the given name, or that of the launcher's job."""
    rank = rank_of(secrets.recorded_environment(environment))
    if join is None:
        name = _job_name(environment)
        return None if name is None else Agreed(name, rank)
    if join == OFF:
        return None
    # With an explicit name, one rank may start several commands, such as a server and its worker.
    return Agreed(join, (*rank, *agent_files.mask_arguments(command)) if rank else ())


def rank_of(environment: Variables) -> tuple[str, ...]:
    """Return what differs between the ranks of a job, as it is stored; empty without a rank."""
    parts = [f"{name}={environment[name]}" for name in _RANKS if name in environment]
    if environment.get(_ELASTIC_ID):
        # A worker that torchrun starts again has the same rank, and is of the same job.
        parts += [f"{name}={environment[name]}" for name in _ELASTIC_RANK if name in environment]
    if _step(environment) is not None and "SLURM_PROCID" in environment:
        parts.append(f"SLURM_PROCID={environment['SLURM_PROCID']}")
    return tuple(parts)


def _job_name(environment: Variables) -> str | None:
    """Return a name based on the launcher's job id; with two launchers, on the inner one's."""
    get = environment.get
    if get("HOROVOD_GLOO_RENDEZVOUS_PORT") and _many(get("HOROVOD_SIZE")):
        return _name("horovod", environment, _HOROVOD)
    if get(_ELASTIC_ID) and _many(get("WORLD_SIZE")):
        return _elastic_name(environment)
    if _many(get("OMPI_COMM_WORLD_SIZE")):
        by = _OPEN_MPI if get(_OPEN_MPI[0]) else _PMIX
        return _name("mpi", environment, by)
    if get("PALS_APID") and _many(get("PMI_SIZE")):
        return _name("mpi", environment, ("PALS_APID",))
    if get("SLURM_JOB_ID") and _step(environment) is not None:
        tasks = get("SLURM_STEP_NUM_TASKS") or get("SLURM_NTASKS")
        return _name("slurm", environment, _SLURM) if _many(tasks) else None
    return None


_HOROVOD = ("HOROVOD_GLOO_RENDEZVOUS_ADDR", "HOROVOD_GLOO_RENDEZVOUS_PORT")
# Random and new for every job; otherwise a number made of the launcher's host and pid.
_OPEN_MPI = ("OMPI_MCA_orte_precondition_transports",)
_PMIX = ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid")
# A requeued job keeps its number, and a cluster eventually reuses its numbers.
_SLURM = (
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
    "SLURM_RESTART_COUNT",
    "SLURM_JOB_START_TIME",
    "SLURM_CLUSTER_NAME",
)


_ELASTIC_ID = "TORCHELASTIC_RUN_ID"
_ELASTIC_RANK = ("RANK", "TORCHELASTIC_RESTART_COUNT")
# The id of a job that was given none.
_NO_ID = "none"


def _elastic_name(environment: Variables) -> str | None:
    """Name a job of torchrun: by its id, by the place where its nodes meet, or on its one node."""
    by = [_ELASTIC_ID] if environment[_ELASTIC_ID] != _NO_ID else ["MASTER_ADDR", "MASTER_PORT"]
    # Ids and ports come again. On one node, torchrun makes a directory of a new name; below it are
    # those of attempts and ranks.
    logs = environment.get("TORCHELASTIC_ERROR_FILE", "").rsplit("/", 3)[0]
    is_one_node = environment.get("GROUP_WORLD_SIZE") == "1"
    if is_one_node and logs:
        return _name("torchrun", {**environment, "directory": logs}, [*by, "directory"])
    return _name("torchrun", environment, by)


def _name(kind: str, environment: Variables, by: Sequence[str]) -> str | None:
    parts = [f"{name}={environment[name]}" for name in by if environment.get(name)]
    if not parts:
        return None
    # Imported here: every job waits for this module's imports, and most have no launcher.
    import hashlib

    digest = hashlib.sha256("\0".join(parts).encode(errors="surrogateescape")).hexdigest()[:10]
    return f"{kind}-{digest}"


def _step(environment: Variables) -> int | None:
    text = environment.get("SLURM_STEP_ID", "")
    is_number = text.isascii() and text.isdigit() and len(text) <= 10
    return int(text) if is_number and int(text) < _FIRST_SPECIAL_STEP else None


def _many(world: str | None) -> bool:
    text = world or ""
    return text.isascii() and text.isdigit() and len(text) < 10 and int(text) > 1
