"""Real distributed jobs: all their ranks are one run, and their results are what they were."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.tf.laboratory import Laboratory, Outcome, tfprobe_json
from tests.tf.requirements import need_program, need_tensorflow

STEPS = 40


def test_two_workers_of_a_mirrored_strategy_are_one_run(
    laboratory: Laboratory, tmp_path: Path
) -> None:
    """Keras' fit, or a loop of one's own where Keras has no fit for it any more."""
    need_tensorflow(laboratory, (2, 4))
    way = "fit" if laboratory.tensorflow < (2, 16) else "loop"

    bare = laboratory.start("multi_worker.py", way)
    recorded = _each_recorded(laboratory, tmp_path, "multi_worker.py", way, join="job-7")

    bare = _ended_well(bare.outcome())

    assert _told(bare) == _told(recorded)
    assert _ranks(recorded) == [("worker", 0, 2), ("worker", 1, 2)]
    for process in recorded.report["processes"]:
        assert process["state"] == "finished"
        own = recorded.stated[f"steps of worker {process['rank']}"]["value"]
        assert sum(loop["count"] for loop in process["work"]) == own >= STEPS


def test_each_task_of_a_parameter_server_job_is_there(
    laboratory: Laboratory, tmp_path: Path
) -> None:
    """The chief counts the steps that it hands out; those who serve have none of their own."""
    need_tensorflow(laboratory, (2, 8))

    recorded = _each_recorded(laboratory, tmp_path, "parameter_server.py", join="job-7")

    assert _told(recorded) == {"sum of the table": STEPS * 1000}
    tasks = [("chief", 0, 3), ("ps", 0, 3), ("worker", 1, 3), ("worker", 2, 3)]
    assert _ranks(recorded) == tasks
    chief, *serving = sorted(recorded.report["processes"], key=lambda each: not each["work"])
    assert sum(loop["count"] for loop in chief["work"]) == STEPS
    # A launcher ends them by a signal once the chief is done.
    assert [(each["work"], each["state"]) for each in serving] == [([], "killed")] * 3


def test_what_a_worker_pulls_from_a_server_is_told(laboratory: Laboratory) -> None:
    """Each traced step pulls 4,000 bytes; of what is pushed TensorFlow loses some."""
    recorded = laboratory.start("own_server.py", record=["--every", "5"]).outcome()

    [server] = tfprobe_json("ranks", str(recorded.run))["servers"]["servers"]
    [exchange] = server["by_process"]

    steps = len(list(recorded.run.glob("*/*/captures/*session_run*")))
    assert server["server"] == "/job:ps/replica:0/task:0"
    assert exchange["pulled_bytes"] == 4_000 * steps > 0
    assert exchange["pushed_bytes"] in range(0, 4_000 * steps + 1, 4_000)
    # All tasks of the cluster are in this process: no other rank is absent.
    assert _ranks(recorded) == []


def test_servers_that_a_script_forks_tell_their_roles(laboratory: Laboratory) -> None:
    """No variable does, and the parameter server makes no step at all."""
    recorded = _ended_well(
        laboratory.start("forked_servers.py", record=["--steps", "10"]).outcome()
    )

    roles = {
        each["folder"]: each["role"] for each in tfprobe_json("ranks", str(recorded.run))["ranks"]
    }
    steps = sorted(
        (roles[each["folder"]] or "", max((loop["count"] for loop in each["work"]), default=0))
        for each in recorded.report["processes"]
    )
    assert _ranks(recorded) == [("ps", 0, 2), ("worker", 0, 2), ("worker", 1, 2)]
    assert steps == [("", 0), ("ps", 0), ("worker", STEPS // 2), ("worker", STEPS // 2)]
    # Of the script alone, and not of the parameter server.
    assert len(recorded.report["silences"]) == 1


@pytest.fixture(scope="module")
def under_mpirun(laboratory: Laboratory, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """Four ranks that meet outside TensorFlow after each step; rank 2 takes far longer."""
    need_program("mpirun", "openmpi-bin")
    return _each_recorded(laboratory, tmp_path_factory.mktemp("mpi"), "mpi_ranks.py")


def test_all_ranks_of_mpirun_are_one_run(under_mpirun: Outcome) -> None:
    """Prefixed each, they find each other without a name."""
    total = sum(step * (0 + 1 + 2 + 3) / 4 for step in range(STEPS))

    assert _told(under_mpirun) == {f"total of rank {rank}": total for rank in range(4)}
    assert _ranks(under_mpirun) == [("worker", rank, 4) for rank in range(4)]
    assert [loop["count"] for loop in under_mpirun.loops] == [STEPS] * 4


def test_the_slow_one_of_four_mpi_ranks_is_named(under_mpirun: Outcome) -> None:
    """The others wait for it outside of their steps, where TensorFlow sees nothing."""
    told = tfprobe_json("ranks", str(under_mpirun.run))

    # Four share the cores of one machine, and if others do as well one of them may get less of it.
    slowest, *others = told["stragglers"]
    assert told["ranks"][slowest["process"]]["rank"] == 2
    assert all(slowest["excess_ratio"] > 3 * each["excess_ratio"] for each in others)


def _each_recorded(
    laboratory: Laboratory, folder: Path, script: str, *args: str, join: str | None = None
) -> Outcome:
    """Return what is left of a job each of whose tasks was prefixed by itself."""
    runs = folder / "runs"
    prefix = [sys.executable, "-m", "tfprobe", "run", "-q", "-o", str(runs), "--every", "5"]
    prefix += ["--join", join] if join else []
    each = {"EACH_TASK_BY": " ".join([*prefix, "--"])}
    return replace(_ended_well(laboratory.start(script, *args, env=each).outcome()), output=runs)


def _ended_well(outcome: Outcome) -> Outcome:
    assert outcome.status == 0, outcome.stderr[-2000:]
    return outcome


def _told(outcome: Outcome) -> dict[str, Any]:
    """Return what the tasks of a job said of their results."""
    assert outcome.stated
    return {name: fact["value"] for name, fact in outcome.stated.items()}


def _ranks(outcome: Outcome) -> list[tuple[str, int, int]]:
    """Return the role, number and world of each process that knows its own, in order."""
    manifests = [json.loads(path.read_text()) for path in outcome.run.glob("*/*/process.json")]
    known = [each["rank"] for each in manifests if each["rank"]]
    return sorted((each["role"], each["index"], each["world"]) for each in known)
