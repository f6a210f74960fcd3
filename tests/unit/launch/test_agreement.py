"""Launches of one job agree on a name by what their launcher tells each of them."""

from __future__ import annotations

import pytest

from tfprobe.launch.joining import agree

OPEN_MPI = {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_MCA_orte_precondition_transports": "a-b"}
PRTE = {"OMPI_COMM_WORLD_SIZE": "2", "PMIX_NAMESPACE": "prterun-node1-4711@1"}
HOROVOD = {
    "HOROVOD_SIZE": "2",
    "HOROVOD_GLOO_RENDEZVOUS_ADDR": "192.0.2.1",
    "HOROVOD_GLOO_RENDEZVOUS_PORT": "40811",
}
SLURM = {"SLURM_JOB_ID": "17", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2"}
CRAY = {"PALS_APID": "3f2a", "PMI_SIZE": "2"}
TORCHRUN = {"WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "17", "TORCHELASTIC_RESTART_COUNT": "0"}
# An id that is not given is none: then nodes meet at an address, and one node has a directory.
MEETING = {"TORCHELASTIC_RUN_ID": "none", "MASTER_ADDR": "node1", "MASTER_PORT": "29500"}
ONE_NODE = {"GROUP_WORLD_SIZE": "1", "TORCHELASTIC_ERROR_FILE": "/tmp/a/attempt_0/0/error.json"}
JOBS = {
    "torchrun": (TORCHRUN, "RANK", "TORCHELASTIC_RUN_ID"),
    "nodes of torchrun": ({**TORCHRUN, **MEETING}, "RANK", "MASTER_PORT"),
    "restarts": ({**TORCHRUN, "RANK": "0"}, "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_RUN_ID"),
    "srun torchrun": ({**SLURM, **TORCHRUN, "SLURM_PROCID": "0"}, "RANK", "TORCHELASTIC_RUN_ID"),
    "mpi": (OPEN_MPI, "OMPI_COMM_WORLD_RANK", "OMPI_MCA_orte_precondition_transports"),
    "prte": (PRTE, "OMPI_COMM_WORLD_RANK", "PMIX_NAMESPACE"),
    "horovod": (HOROVOD, "HOROVOD_RANK", "HOROVOD_GLOO_RENDEZVOUS_PORT"),
    "slurm": (SLURM, "SLURM_PROCID", "SLURM_JOB_ID"),
    "step": (SLURM, "SLURM_PROCID", "SLURM_STEP_ID"),
    "requeued": ({**SLURM, "SLURM_RESTART_COUNT": "0"}, "SLURM_PROCID", "SLURM_RESTART_COUNT"),
    "cray": (CRAY, "PMI_RANK", "PALS_APID"),
}


@pytest.mark.parametrize("job", JOBS)
def test_ranks_of_one_job_share_a_name(job: str) -> None:
    """And have places of their own in it."""
    variables, rank, _ = JOBS[job]

    first, second = (agree(None, {**variables, rank: text}, ["job"]) for text in "01")

    assert first is not None
    assert second is not None
    assert first.name == second.name
    assert first.rank != second.rank


@pytest.mark.parametrize("job", JOBS)
def test_another_job_has_another_name(job: str) -> None:
    """By the id that its launcher made up."""
    variables, _, by = JOBS[job]

    names = {
        found.name
        for text in ("1", "2")
        if (found := agree(None, {**variables, by: text}, ["job"])) is not None
    }

    assert len(names) == 2


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"SLURM_JOB_ID": "17", "SLURM_PROCID": "0", "SLURM_NTASKS": "4"},
        {**SLURM, "SLURM_STEP_ID": "4294967291"},
        {**SLURM, "SLURM_STEP_NUM_TASKS": "1"},
        {**OPEN_MPI, "OMPI_COMM_WORLD_SIZE": "1"},
        {**OPEN_MPI, "OMPI_COMM_WORLD_SIZE": "x" * 5000},
        {"OMPI_COMM_WORLD_SIZE": "2"},
        {"PMI_RANK": "0", "PMI_SIZE": "2"},
        {"JOB_COMPLETION_INDEX": "0"},
    ],
)
def test_where_nothing_is_told_nothing_is_shared(variables) -> None:
    """A batch script outside of a step, a world of one, a launcher without an id."""
    assert agree(None, variables, ["job"]) is None


def test_of_two_launchers_the_inner_one_names_the_run() -> None:
    """mpirun inside of Slurm: its ranks are on nodes with and without a step."""
    inside = agree(None, {**SLURM, **OPEN_MPI}, ["job"])
    beside = agree(None, OPEN_MPI, ["job"])

    assert inside == beside


def test_a_name_that_was_given_wins() -> None:
    """Over anything that a launcher tells; `off` over all."""
    given = agree("exp7", OPEN_MPI, ["job"])

    assert given is not None
    assert given.name == "exp7"
    assert agree("off", OPEN_MPI, ["job"]) is None


def test_a_rank_may_start_two_commands_of_one_name() -> None:
    """A server beside its worker; the same command again is a second job."""
    launches = [
        agree("exp7", {"JOB_COMPLETION_INDEX": "0"}, command)
        for command in (["ps"], ["worker"], ["worker"])
    ]

    server, worker, again = (launch and launch.rank for launch in launches)
    assert server != worker == again


def test_two_jobs_of_torchrun_on_one_port_are_two_runs() -> None:
    """On one node: the directory that it makes for its workers is new in each job."""
    first = {**TORCHRUN, **MEETING, **ONE_NODE, "RANK": "0"}
    again = {"RANK": "1", "TORCHELASTIC_ERROR_FILE": "/tmp/a/attempt_1/1/error.json"}
    later = {"TORCHELASTIC_ERROR_FILE": "/tmp/b/attempt_0/0/error.json"}

    found = [agree(None, {**first, **other}, ["job"]) for other in ({}, again, later)]

    names = [agreed.name for agreed in found if agreed is not None]
    assert names[0] == names[1] != names[2]
