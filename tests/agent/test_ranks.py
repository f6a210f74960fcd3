"""Which process of a distributed job this is, from whatever its launcher provides."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace

import pytest

from tests.support.agent import Laboratory, load

ranks, config = load("ranks"), load("config")
CONTEXT = "tensorflow.python.eager.context"
JAX = "jax._src.distributed"
CLUSTER = {"chief": ["a:1"], "worker": ["b:1", "c:1"], "ps": ["d:1"], "evaluator": ["e:1"]}


@pytest.fixture(autouse=True)
def no_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell that belongs to no job, and no TensorFlow."""
    for name in config._RANK_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delitem(sys.modules, CONTEXT, raising=False)
    monkeypatch.delitem(sys.modules, JAX, raising=False)
    ranks.forget_servers()


def _tf_config(task: object, cluster: object = CLUSTER) -> str:
    return json.dumps({"cluster": cluster, "task": task})


def test_a_job_of_one_process_has_no_rank() -> None:
    """No source, no rank."""
    assert ranks.rank() is None


@pytest.mark.parametrize(
    ("role", "given", "index"),
    [("chief", 0, 0), ("worker", 0, 1), ("worker", "1", 2), ("ps", 0, 0), ("evaluator", 0, 0)],
)
def test_tf_config_numbers_chief_and_workers(monkeypatch, role, given, index) -> None:
    """The chief is worker 0; parameter servers and evaluators are not in the world."""
    monkeypatch.setenv("TF_CONFIG", _tf_config({"type": role, "index": given}))

    assert ranks.rank() == {"source": "TF_CONFIG", "index": index, "world": 3, "role": role}


def test_the_master_of_old_estimators_is_a_chief(monkeypatch) -> None:
    """That is its name in TensorFlow 1."""
    cluster = {"master": ["a:1"], "worker": ["b:1"]}
    monkeypatch.setenv("TF_CONFIG", _tf_config({"type": "worker", "index": 0}, cluster))

    assert ranks.rank() == {"source": "TF_CONFIG", "index": 1, "world": 2, "role": "worker"}


@pytest.mark.parametrize(
    ("role", "given", "chiefs", "index"),
    [("worker", 0, [], 0), ("worker", 1, [], 1), ("worker", 0, ["a:1"], 1), ("ps", 0, ["a:1"], 0)],
)
def test_a_cluster_may_name_its_workers_by_number(monkeypatch, role, given, chiefs, index) -> None:
    """A sparse cluster is a dictionary of the tasks that a process communicates with, of unknown
    number.
    """
    cluster = {"chief": chiefs, "worker": {str(given): "b:1"}, "ps": ["d:1"]}
    monkeypatch.setenv("TF_CONFIG", _tf_config({"type": role, "index": given}, cluster))

    assert ranks.rank() == {"source": "TF_CONFIG", "index": index, "world": None, "role": role}


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", "1", "null", "{}", '{"task": null}', '{"task": {"type": "worker"}}'),
        _tf_config({"type": "worker", "index": "x"}),
        _tf_config({"type": "worker", "index": None}),
        _tf_config({"type": "worker", "index": 0}, {"worker": 3}),
        _tf_config({"type": "worker", "index": 0}, {"worker": None}),
        _tf_config({"type": "worker", "index": 0}, ["a:1"]),
        '{"cluster": {}, "task": {"type": "worker", "index": Infinity}}',
        _tf_config({"type": "worker", "index": -1}),
        _tf_config({"type": "worker", "index": 10**30}),
        _tf_config({"type": "worker", "index": 7}, {"worker": ["a:1", "b:1"]}),
        _tf_config({"type": "w" * 10_000, "index": 0}),
        _tf_config({"type": "wor\x1b[31mker", "index": 0}),
        _tf_config({"type": "\ud800", "index": 0}),
        _tf_config({"type": "", "index": 0}),
        _tf_config({"type": ["worker"], "index": 0}),
        "[" * 100_000,
    ],
)
def test_a_broken_tf_config_is_no_error_of_the_agent(monkeypatch, text) -> None:
    """TensorFlow will report what is wrong with it; other variables still count."""
    monkeypatch.setenv("TF_CONFIG", text)
    assert ranks.rank() is None

    monkeypatch.setenv("PMI_RANK", "2")
    assert ranks.rank() == {"source": "PMI", "index": 2, "world": None, "role": "worker"}


TORCHRUN = {"RANK": "3", "WORLD_SIZE": "8", "MASTER_ADDR": "node1"}
LAUNCHERS = [
    ("Horovod", {"HOROVOD_RANK": "3", "HOROVOD_SIZE": "8"}),
    ("torchrun", {**TORCHRUN, "TORCHELASTIC_RUN_ID": "none"}),
    ("OpenMPI", {"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "8"}),
    ("MVAPICH", {"MV2_COMM_WORLD_RANK": "3", "MV2_COMM_WORLD_SIZE": "8"}),
    ("PMI", {"PMI_RANK": "3", "PMI_SIZE": "8"}),
    ("SLURM", {"SLURM_PROCID": "3", "SLURM_NTASKS": "8", "SLURM_STEP_ID": "0"}),
    ("SLURM", {"SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "8", "SLURM_STEPID": "12"}),
    ("torchrun", TORCHRUN),
]


def _set(monkeypatch: pytest.MonkeyPatch, *variables: dict[str, str]) -> None:
    for mapping in variables:
        for name, text in mapping.items():
            monkeypatch.setenv(name, text)


@pytest.mark.parametrize(("source", "variables"), LAUNCHERS)
def test_launchers_provide_rank_and_world(monkeypatch, source, variables) -> None:
    """By variables of their own."""
    _set(monkeypatch, variables)

    assert ranks.rank() == {"source": source, "index": 3, "world": 8, "role": "worker"}


@pytest.mark.parametrize("outer", range(1, len(LAUNCHERS)))
def test_the_launcher_that_knows_the_job_best_is_believed(monkeypatch, outer) -> None:
    """mpirun inside Slurm, in a pod: the numbers are mpirun's."""
    source, variables = LAUNCHERS[outer - 1]
    others = [
        {
            name: "7" if name.endswith(("RANK", "PROCID")) else text
            for name, text in variables.items()
        }
        for _, variables in LAUNCHERS[outer:]
    ]
    _set(monkeypatch, *others, variables, {"JOB_COMPLETION_INDEX": "5"})

    assert ranks.rank()["index"] == 3
    assert ranks.rank()["source"] == source


def test_srun_around_torchrun_numbers_nodes(monkeypatch) -> None:
    """One task a node, each with several workers: the rank is the one of torchrun."""
    slurm = {"SLURM_PROCID": "1", "SLURM_NTASKS": "2", "SLURM_STEP_ID": "0"}
    _set(monkeypatch, slurm, TORCHRUN, {"TORCHELASTIC_RUN_ID": "17"})

    assert ranks.rank() == {"source": "torchrun", "index": 3, "world": 8, "role": "worker"}


@pytest.mark.parametrize(("count", "restarts"), [("0", None), ("2", 2), ("-1", None)])
def test_a_worker_that_torchrun_started_again_says_so(monkeypatch, count, restarts) -> None:
    """It has the rank of the worker that ended."""
    elastic = {"TORCHELASTIC_RUN_ID": "17", "TORCHELASTIC_RESTART_COUNT": count}
    _set(monkeypatch, TORCHRUN, elastic)

    assert ranks.rank().get("restarts") == restarts


def test_the_cluster_of_a_job_takes_precedence_over_its_launcher(monkeypatch) -> None:
    """TF_CONFIG distinguishes parameter servers from workers, which mpirun does not."""
    _set(monkeypatch, {"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4"})
    monkeypatch.setenv("TF_CONFIG", _tf_config({"type": "ps", "index": 0}))

    assert ranks.rank() == {"source": "TF_CONFIG", "index": 0, "world": 3, "role": "ps"}


@pytest.mark.parametrize("step", ["", "4294967291", "4294967290", "-5", "x", "9" * 5000])
def test_a_batch_script_is_no_rank(monkeypatch, step) -> None:
    """Slurm sets PROCID to 0 outside of srun, too, and NTASKS to what was reserved."""
    _set(monkeypatch, {"SLURM_PROCID": "0", "SLURM_NTASKS": "4", "SLURM_STEP_ID": step})

    assert ranks.rank() is None


def test_the_only_task_of_a_step_is_no_rank(monkeypatch) -> None:
    """`srun -n1` around mpirun or around nothing says nothing."""
    _set(monkeypatch, {"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1", "SLURM_STEP_ID": "0"})
    assert ranks.rank() is None

    monkeypatch.setenv("JOB_COMPLETION_INDEX", "2")
    assert ranks.rank() == {"source": "Kubernetes", "index": 2, "world": None, "role": "worker"}


def test_a_rank_of_pmix_knows_its_world_from_slurm_alone(monkeypatch) -> None:
    """With srun --mpi=pmix it is that of the step; with prterun it is unknown."""
    step = {"SLURM_PROCID": "2", "SLURM_STEP_NUM_TASKS": "4", "SLURM_STEP_ID": "0"}
    _set(monkeypatch, step, {"PMIX_RANK": "2", "PMIX_NAMESPACE": "slurm.pmix.17.0"})
    assert ranks.rank() == {"source": "PMIx", "index": 2, "world": 4, "role": "worker"}

    monkeypatch.setenv("PMIX_NAMESPACE", "prterun-node1-4711@1")
    assert ranks.rank() == {"source": "PMIx", "index": 2, "world": None, "role": "worker"}


def test_rank_alone_may_have_any_meaning(monkeypatch) -> None:
    """RANK and WORLD_SIZE count only together with the address at which such jobs connect."""
    _set(monkeypatch, {"RANK": "1", "WORLD_SIZE": "4"})

    assert ranks.rank() is None


GARBAGE = ["", "x", "-1", "1.5", "²", "٣", " 1", "1_0", "9" * 5000, "9" * 10]


@pytest.mark.parametrize("text", GARBAGE)
@pytest.mark.parametrize(("source", "variables"), [*LAUNCHERS, ("", {"JOB_COMPLETION_INDEX": "1"})])
def test_garbage_in_a_launchers_variable_is_no_rank(monkeypatch, source, variables, text) -> None:
    """An index that is no number says nothing."""
    index = next(iter(variables))
    _set(monkeypatch, {**variables, index: text})

    assert ranks.rank() is None


@pytest.mark.parametrize("text", GARBAGE)
def test_garbage_for_a_world_leaves_it_unknown(monkeypatch, text) -> None:
    """The index may still be right."""
    _set(monkeypatch, {"PMI_RANK": "3", "PMI_SIZE": text})

    assert ranks.rank()["world"] is None


def test_an_index_outside_of_its_world_is_no_rank(monkeypatch) -> None:
    """One of the two was inherited from elsewhere."""
    _set(monkeypatch, {"PMI_RANK": "4", "PMI_SIZE": "4"})

    assert ranks.rank() is None


def _context(role: str, index: int, **jobs: int) -> SimpleNamespace:
    cluster = [SimpleNamespace(name=name, tasks=range(size)) for name, size in jobs.items()]
    server = SimpleNamespace(job_name=role, task_index=index, cluster=SimpleNamespace(job=cluster))
    return SimpleNamespace(_context=SimpleNamespace(_server_def=server))


def test_a_cluster_set_up_by_the_program_is_seen(monkeypatch) -> None:
    """A resolver in the code, without TF_CONFIG: TensorFlow itself knows it then."""
    monkeypatch.setitem(sys.modules, CONTEXT, _context("worker", 1, chief=1, worker=2, ps=1))

    assert ranks.rank() == {"source": "tf.distribute", "index": 2, "world": 3, "role": "worker"}


def test_a_program_that_borrows_a_worker_is_no_rank(monkeypatch) -> None:
    """It is called localhost there."""
    monkeypatch.setitem(sys.modules, CONTEXT, _context("localhost", 0, worker=1))

    assert ranks.rank() is None


def test_a_cluster_that_the_program_sets_up_late_reaches_the_manifest(
    laboratory: Laboratory,
) -> None:
    """process.json is written again at the first trace; removed variables stay known."""
    laboratory.arm(steps=[[2, 2]])
    laboratory.finish(
        """
del os.environ["PMI_SIZE"]
os.environ["TF_CONFIG"] = (
    '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 1}}'
)
for _ in range(4):
    session.run("loss")
""",
        env={"PMI_RANK": "0", "PMI_SIZE": "2"},
    )

    (folder,) = laboratory.folders()
    rank = json.loads((folder / "process.json").read_text())["rank"]
    assert rank == {"source": "TF_CONFIG", "index": 1, "world": 2, "role": "worker"}


def _server_def(role: str, index: int, **sizes: int) -> SimpleNamespace:
    jobs = [
        SimpleNamespace(name=name, tasks={task: f"{name}{task}:1" for task in range(size)})
        for name, size in sizes.items()
    ]
    return SimpleNamespace(job_name=role, task_index=index, cluster=SimpleNamespace(job=jobs))


@pytest.mark.parametrize(
    ("role", "given", "index"), [("ps", 1, 1), ("worker", 1, 2), ("chief", 0, 0), ("worker", 0, 1)]
)
def test_a_server_has_its_place(role: str, given: int, index: int) -> None:
    """A program of TensorFlow 1 knows it from its own arguments."""
    ranks.SERVERS.add(_server_def(role, given, ps=2, chief=1, worker=2))

    expected = {"source": "tf.train.Server", "index": index, "world": 3, "role": role}
    assert ranks.rank() == expected


def test_a_local_server_is_no_rank() -> None:
    """Server.create_local_server makes a cluster of one task."""
    ranks.SERVERS.add(_server_def("local", 0, local=1))

    assert ranks.rank() is None


def test_a_cluster_in_one_process_has_no_ranks() -> None:
    """All of its tasks are served there."""
    for role, index in (("ps", 0), ("worker", 0), ("worker", 1)):
        ranks.SERVERS.add(_server_def(role, index, ps=1, worker=2))

    assert ranks.rank() is None


def test_tf_config_of_workers_in_one_process_is_no_rank(monkeypatch) -> None:
    """It names worker 0, and the other one was started in the same process."""
    cluster = {"worker": ["a:1", "a:2"]}
    monkeypatch.setenv("TF_CONFIG", _tf_config({"type": "worker", "index": 0}, cluster))
    assert ranks.rank() is not None

    ranks.SERVERS.add(_server_def("worker", 1, worker=2))

    assert ranks.rank() is None


def test_a_process_of_several_tasks_lists_them() -> None:
    """None of them is missing, and others may be."""
    for index in (0, 1):
        ranks.SERVERS.add(_server_def("worker", index, worker=3))

    assert ranks.rank() == {
        "source": "tf.train.Server",
        "index": 0,
        "world": 3,
        "role": "worker",
        "serves": [{"index": 1, "role": "worker"}],
    }


def test_a_forked_child_does_not_have_its_parents_servers() -> None:
    """They are threads that it does not have."""
    ranks.SERVERS.add(_server_def("worker", 1, worker=2))

    ranks.forget_servers()

    assert ranks.rank() is None


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["/job:ps/replica:0/task:1/device:CPU:0"], ("ps", 1)),
        (["/job:localhost/replica:0/task:0/device:CPU:0"], None),
        (["/job:worker/replica:0/task:0/cpu:0", "/job:ps/replica:0/task:0/cpu:0"], None),
        (["/device:CPU:0", "no device"], None),
    ],
)
def test_devices_give_a_task_if_all_are_of_one(names, expected) -> None:
    """If no other source does."""
    place = ranks.rank(devices=names)

    assert (place and (place["role"], place["index"])) == expected
    assert place is None or place["source"] == "devices"


def _initialized(index: object, world: object) -> SimpleNamespace:
    return SimpleNamespace(global_state=SimpleNamespace(process_id=index, num_processes=world))


def test_jax_says_which_process_this_is(monkeypatch) -> None:
    """Its own numbering comes before that of the launcher, as it may have been given another."""
    monkeypatch.setitem(sys.modules, JAX, _initialized(1, 4))
    monkeypatch.setenv("PMI_RANK", "3")
    monkeypatch.setenv("PMI_SIZE", "8")

    assert ranks.rank() == {"source": "jax.distributed", "index": 1, "world": 4, "role": "worker"}


@pytest.mark.parametrize(
    ("index", "world"), [(0, 1), (None, None), (4, 4), (-1, 4), ("0", "2"), (0, 10**12)]
)
def test_jax_in_one_process_or_with_odd_numbers_is_no_rank(monkeypatch, index, world) -> None:
    """JAX that was not initialized for several processes says 0 of 1."""
    monkeypatch.setitem(sys.modules, JAX, _initialized(index, world))

    assert ranks.rank() is None
