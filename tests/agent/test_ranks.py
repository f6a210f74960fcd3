"""Which process of a distributed job this is, from whatever its launcher says."""

from __future__ import annotations

import json

import pytest

from tests.support.agent import load

ranks = load("ranks")
CLUSTER = {"chief": ["a:1"], "worker": ["b:1", "c:1"], "ps": ["d:1"], "evaluator": ["e:1"]}
NAMES = ("SLURM_PROCID", "SLURM_NTASKS", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")


@pytest.fixture(autouse=True)
def no_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell that belongs to no job."""
    for name in ("TF_CONFIG", *NAMES, "PMI_RANK", "PMI_SIZE"):
        monkeypatch.delenv(name, raising=False)


def _tf_config(task: object, cluster: object = CLUSTER) -> str:
    return json.dumps({"cluster": cluster, "task": task})


def test_a_job_of_one_process_has_no_rank() -> None:
    """Nothing said, nothing stored."""
    assert ranks.rank() is None


@pytest.mark.parametrize(
    ("role", "given", "index"),
    [("chief", 0, 0), ("worker", 0, 1), ("worker", "1", 2), ("ps", 0, 0), ("evaluator", 0, 0)],
)
def test_tf_config_numbers_chief_and_workers(monkeypatch, role, given, index) -> None:
    """The chief is worker 0; parameter servers and evaluators count apart and not in the world."""
    monkeypatch.setenv("TF_CONFIG", _tf_config({"type": role, "index": given}))

    assert ranks.rank() == {"source": "TF_CONFIG", "index": index, "world": 3, "role": role}


def test_the_master_of_old_estimators_is_a_chief(monkeypatch) -> None:
    """TensorFlow 1 called it so."""
    cluster = {"master": ["a:1"], "worker": ["b:1"]}
    monkeypatch.setenv("TF_CONFIG", _tf_config({"type": "worker", "index": 0}, cluster))

    assert ranks.rank() == {"source": "TF_CONFIG", "index": 1, "world": 2, "role": "worker"}


def test_a_cluster_may_name_its_workers_by_number(monkeypatch) -> None:
    """A sparse cluster is a dictionary."""
    task = {"type": "worker", "index": 1}
    monkeypatch.setenv("TF_CONFIG", _tf_config(task, {"worker": {"1": "b:1"}}))

    assert ranks.rank()["world"] == 1


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
    ],
)
def test_a_broken_tf_config_is_no_error_of_ours(monkeypatch, text) -> None:
    """TensorFlow will say what is wrong with it; other variables still count."""
    monkeypatch.setenv("TF_CONFIG", text)
    assert ranks.rank() is None

    monkeypatch.setenv("PMI_RANK", "2")
    assert ranks.rank() == {"source": "PMI", "index": 2, "world": None, "role": "worker"}


@pytest.mark.parametrize(
    ("source", "index", "world"),
    [
        ("SLURM", "SLURM_PROCID", "SLURM_NTASKS"),
        ("OpenMPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
        ("PMI", "PMI_RANK", "PMI_SIZE"),
    ],
)
def test_launchers_tell_rank_and_world(monkeypatch, source, index, world) -> None:
    """By variables of their own."""
    monkeypatch.setenv(index, "3")
    monkeypatch.setenv(world, "8")

    assert ranks.rank() == {"source": source, "index": 3, "world": 8, "role": "worker"}


@pytest.mark.parametrize("text", ["", "x", "-1", "1.5", "²", " 1"])
def test_garbage_in_a_launchers_variable_is_no_rank(monkeypatch, text) -> None:
    """An index that is no number says nothing; nor does such a world."""
    monkeypatch.setenv("SLURM_PROCID", text)
    assert ranks.rank() is None

    monkeypatch.setenv("SLURM_PROCID", "0")
    monkeypatch.setenv("SLURM_NTASKS", text)
    assert ranks.rank()["world"] is None
