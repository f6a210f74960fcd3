"""The recipes of docs/distributed.md run as they stand, with what would start them made up."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.process.launching import PATIENCE_S, ROOT, Launcher, environment
from tests.support import toy_tensorflow

if "CI" not in os.environ:
    pytest.importorskip("yaml", reason="PyYAML is not here")
import yaml

KUBERNETES = ROOT / "examples" / "kubernetes"
UID = "0f0c7a3e-5d53-4a9c-9f5b-3c1d1f0b7c11"
LABELS = {"batch.kubernetes.io/controller-uid": UID, "job-name": "train"}
TRAIN = """
import tensorflow.python.client.session as session_module
session = session_module.BaseSession()
for _ in range(10):
    session.run("loss")
"""
# What an srun does to its tasks, as far as a task can see: variables.
SRUN = """#!/bin/bash
for rank in $(seq 0 $((SLURM_NTASKS - 1))); do
  SLURM_PROCID=$rank SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=$SLURM_NTASKS "$@" &
done
wait
"""
SBATCH = {"SLURM_JOB_ID": "4711", "SLURM_NTASKS": "4", "SLURM_PROCID": "0"}


@pytest.fixture
def place(launcher: Launcher) -> dict[str, str]:
    """A directory with train.py, and the variables of a shell in it that finds tfprobe."""
    toy_tensorflow.write(launcher.work)
    launcher.write("train.py", TRAIN)
    path = f"{launcher.program.parent}:{environment({})['PATH']}"
    return {"PYTHONPATH": str(launcher.work), "PATH": path}


def _documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((KUBERNETES / name).read_text()))


def _job(name: str) -> dict[str, Any]:
    (job,) = [each for each in _documents(name) if each["kind"] == "Job"]
    return job


def _pod(spec: Mapping[str, Any], index: int) -> dict[str, str]:
    """The variables of a pod's container, as its kubelet would set them."""
    variables = {"JOB_COMPLETION_INDEX": str(index)}
    for variable in spec["env"]:
        path = variable["valueFrom"]["fieldRef"]["fieldPath"]
        variables[variable["name"]] = LABELS[path.removeprefix("metadata.labels['").rstrip("']")]
    return variables


def _ranks(run: Path) -> list[tuple[str, int, int | None]]:
    ranks = [json.loads(path.read_text())["rank"] for path in run.glob("*/*/process.json")]
    return sorted((rank["source"], rank["index"], rank["world"]) for rank in ranks)


@pytest.mark.parametrize("name", sorted(path.name for path in KUBERNETES.glob("*.yaml")))
def test_a_manifest_is_an_indexed_job(name: str) -> None:
    """What the Job needs for each pod to have an index, and to be started once."""
    job = _job(name)
    spec, pod = job["spec"], job["spec"]["template"]["spec"]

    assert (job["apiVersion"], spec["completionMode"]) == ("batch/v1", "Indexed")
    assert spec["completions"] == spec["parallelism"] > 1
    assert pod["restartPolicy"] == "Never"
    (container,) = pod["containers"]
    mounts = {mount["name"] for mount in container["volumeMounts"]}
    assert mounts == {volume["name"] for volume in pod["volumes"]}
    known = {"name", "image", "command", "env", "ports", "volumeMounts"}
    assert set(container) <= known
    assert set(pod) <= {"containers", "restartPolicy", "subdomain", "volumes"}


def test_the_workers_of_a_manifest_are_found_by_its_service() -> None:
    """Pods are called <job>-<index>.<subdomain>, where a headless service has that name."""
    service, job = _documents("two-workers.yaml")

    subdomain = job["spec"]["template"]["spec"]["subdomain"]
    (container,) = job["spec"]["template"]["spec"]["containers"]
    hosts = [f"{job['metadata']['name']}-{index}.{subdomain}:2222" for index in range(2)]
    assert service["metadata"]["name"] == subdomain
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"] == {"job-name": job["metadata"]["name"]}
    assert json.dumps(hosts) in container["command"][-1]
    assert container["ports"] == [{"containerPort": 2222}]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "ranks"),
    [
        ("indexed-job.yaml", [("Kubernetes", index, None) for index in range(4)]),
        ("two-workers.yaml", [("TF_CONFIG", index, 2) for index in range(2)]),
    ],
)
def test_the_pods_of_a_manifest_make_one_run(launcher: Launcher, place, name, ranks) -> None:
    """Their command, with the variables that a pod has: one run, each rank once."""
    spec = _job(name)["spec"]
    (container,) = spec["template"]["spec"]["containers"]
    command = [word.replace("/runs", str(launcher.output)) for word in container["command"]]

    pods = [
        subprocess.Popen(
            command, cwd=launcher.work, env=environment({**place, **_pod(container, index)})
        )
        for index in range(spec["completions"])
    ]

    assert [pod.wait(timeout=PATIENCE_S) for pod in pods] == [0] * len(pods)
    (run,) = launcher.runs()
    assert run.name == UID
    assert _ranks(run) == ranks


@pytest.mark.slow
@pytest.mark.parametrize("outside", [False, True], ids=["srun tfprobe", "tfprobe srun"])
def test_the_tasks_of_an_sbatch_script_make_one_run(launcher: Launcher, place, outside) -> None:
    """With tfprobe behind srun, as in the example, and in front of it, where srun passes it on."""
    script = (ROOT / "examples" / "slurm" / "train.sbatch").read_text()
    if outside:
        line = 'tfprobe run -o "$SLURM_SUBMIT_DIR/tfprobe-runs" -- srun python train.py'
        script = "\n".join([*script.splitlines()[:-1], line])
    launcher.write("srun", SRUN, mode=0o755)
    launcher.write("train.sbatch", script, mode=0o755)
    path = f"{launcher.work}:{place['PATH']}"
    variables = {**place, **SBATCH, "PATH": path, "SLURM_SUBMIT_DIR": str(launcher.work)}

    ended = launcher.bare("bash", "train.sbatch", env=variables)

    assert ended.status == 0, ended.stderr.decode()
    (run,) = (launcher.work / "tfprobe-runs").iterdir()
    assert _ranks(run) == [("SLURM", index, 4) for index in range(4)]


# What torchrun does, of which one runs on each node: it starts its workers with variables.
TORCHRUN = """#!/bin/bash
while [ "$1" != --no-python ]; do case "$1" in --rdzv-id=*) id=${1#*=};; esac; shift; done
shift
for local in 0 1 2 3; do
  TORCHELASTIC_RUN_ID=$id TORCHELASTIC_RESTART_COUNT=0 MASTER_ADDR=node1 GROUP_WORLD_SIZE=2 \\
    RANK=$((4 * SLURM_PROCID + local)) WORLD_SIZE=8 "$@" &
done
wait
"""


@pytest.mark.slow
def test_the_workers_of_torchrun_below_srun_make_one_run(launcher: Launcher, place) -> None:
    """Four on each of two nodes, which srun numbers and torchrun does not."""
    script = (ROOT / "examples" / "slurm" / "torchrun.sbatch").read_text()
    launcher.write("torchrun.sbatch", script, mode=0o755)
    launcher.write("srun", SRUN, mode=0o755)
    launcher.write("torchrun", TORCHRUN, mode=0o755)
    launcher.write("scontrol", "#!/bin/sh\necho node1\necho node2\n", mode=0o755)
    path = f"{launcher.work}:{place['PATH']}"
    slurm = {**SBATCH, "SLURM_NTASKS": "2", "SLURM_JOB_NODELIST": "node[1-2]"}
    submitted = {"PATH": path, "SLURM_SUBMIT_DIR": str(launcher.work)}

    ended = launcher.bare("bash", "torchrun.sbatch", env={**place, **slurm, **submitted})

    assert ended.status == 0, ended.stderr.decode()
    (run,) = (launcher.work / "tfprobe-runs").iterdir()
    assert _ranks(run) == [("torchrun", index, 8) for index in range(8)]


@pytest.mark.slow
def test_ranks_of_horovodrun_make_one_run(launcher: Launcher, place) -> None:
    """By where they meet their launcher, which horovodrun tells each of them."""
    meeting = {
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": "192.0.2.1",
        "HOROVOD_GLOO_RENDEZVOUS_PORT": "40811",
        "HOROVOD_SIZE": "2",
    }
    command = ["tfprobe", "run", "-o", launcher.output, "--", "python", "train.py"]

    for rank in range(2):
        launcher.bare(*command, env={**place, **meeting, "HOROVOD_RANK": str(rank)})

    (run,) = launcher.runs()
    assert _ranks(run) == [("Horovod", 0, 2), ("Horovod", 1, 2)]
