"""Which run all launches of a job share, and which rank of it this one is. Reads no disk.

Ranks that a launcher starts one by one know nothing of each other but what it has put into the
environment of each: an id of the job, which all have and no other job has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tfprobe.launch import secrets
from tfprobe.launch.grammar import OFF
from tfprobe.runs import agent_files

# Slurm numbers the batch script and interactive shells from here on: nothing in them is a task.
_FIRST_SPECIAL_STEP = 0xFFFFFFF0
# What differs from rank to rank of a job.
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
    """The name of a run that several launches share, and what tells this one from the others."""

    name: str
    rank: tuple[str, ...]


def agreed(join: str | None, environment: Variables, command: Sequence[str]) -> Agreed | None:
    """Return the run to share: of the name that was given, or of the job that a launcher tells."""
    rank = rank_of(secrets.recorded_environment(environment))
    if join is None:
        name = _told(environment)
        return None if name is None else Agreed(name, rank)
    if join == OFF:
        return None
    # Whoever gives a name may start several commands as one rank: a server beside its worker.
    return Agreed(join, (*rank, *agent_files.mask_arguments(command)) if rank else ())


def rank_of(environment: Variables) -> tuple[str, ...]:
    """Return what differs between the ranks of a job, as it is stored; nothing where no rank is."""
    told = [f"{name}={environment[name]}" for name in _RANKS if name in environment]
    if _step(environment) is not None and "SLURM_PROCID" in environment:
        told.append(f"SLURM_PROCID={environment['SLURM_PROCID']}")
    return tuple(told)


def _told(environment: Variables) -> str | None:
    """Return a name made of the launcher's id of the job; of two launchers the inner one's."""
    get = environment.get
    if get("HOROVOD_GLOO_RENDEZVOUS_PORT") and _many(get("HOROVOD_SIZE")):
        return _name("horovod", environment, _HOROVOD)
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
# Random, and new with every job. Where it is not, a number made of the launcher's host and pid.
_OPEN_MPI = ("OMPI_MCA_orte_precondition_transports",)
_PMIX = ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid")
# A job that is queued again keeps its number, and a cluster begins anew with its numbers one day.
_SLURM = (
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
    "SLURM_RESTART_COUNT",
    "SLURM_JOB_START_TIME",
    "SLURM_CLUSTER_NAME",
)


def _name(kind: str, environment: Variables, by: Sequence[str]) -> str | None:
    told = [f"{name}={environment[name]}" for name in by if environment.get(name)]
    if not told:
        return None
    # Imported here: every job waits for the imports of this module, and most have no launcher.
    import hashlib

    digest = hashlib.sha256("\0".join(told).encode(errors="surrogateescape")).hexdigest()[:10]
    return f"{kind}-{digest}"


def _step(environment: Variables) -> int | None:
    text = environment.get("SLURM_STEP_ID", "")
    is_number = text.isascii() and text.isdigit() and len(text) <= 10
    return int(text) if is_number and int(text) < _FIRST_SPECIAL_STEP else None


def _many(world: str | None) -> bool:
    text = world or ""
    return text.isascii() and text.isdigit() and len(text) < 10 and int(text) > 1
