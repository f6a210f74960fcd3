"""Reports become part of runs of MLflow and W&B, by real clients: a file store, offline mode."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.process.launching import Launcher
from tests.support.rundir import (
    LAYOUT,
    WrittenLoop,
    WrittenProcess,
    regular_steps,
    write_run,
)

if "CI" not in os.environ and not all(map(importlib.util.find_spec, ("mlflow", "wandb"))):
    pytest.skip("the extras mlflow and wandb are not here", allow_module_level=True)
pytestmark = pytest.mark.slow

MS = 1_000_000
STARTED = """
import sys, mlflow
mlflow.set_tracking_uri(sys.argv[1])
with mlflow.start_run() as run:
    print(run.info.run_id)
"""
TRACKED = """
import json, sys, mlflow
client = mlflow.MlflowClient(sys.argv[1])
run = client.get_run(sys.argv[2])
files = [file.path for file in client.list_artifacts(run.info.run_id, "tfprobe")]
folder = client.download_artifacts(run.info.run_id, "tfprobe")
print(json.dumps({
    "metrics": run.data.metrics, "tags": run.data.tags, "status": run.info.status,
    "report": json.load(open(folder + "/report.json")),
    "page": open(folder + "/report.html").read(), "files": files,
}))
"""
# Where a client may not go: an address that nobody has.
NOWHERE = {"https_proxy": "http://192.0.2.1:9", "http_proxy": "http://192.0.2.1:9"}


@pytest.fixture
def job(launcher: Launcher):
    """Write a run of 30 steps whose job had these variables."""

    def write(**variables: str) -> Path:
        loop = WrittenLoop(steps=regular_steps(30, step_ns=8 * MS, gap_ns=2 * MS))
        process = WrittenProcess(loops=[loop], header={LAYOUT.STATE_WORD: LAYOUT.FINISHED})
        manifest = {"environment": variables, "cwd": str(launcher.work)}
        return write_run(launcher.output / "r1", [process], manifest=manifest)

    return write


def _store(launcher: Launcher, code: str, *arguments: str) -> str:
    """Do something in the file store as a job would, with MLflow's consent to file stores."""
    ended = launcher.bare(
        sys.executable,
        "-c",
        code,
        *arguments,
        env={"MLFLOW_ALLOW_FILE_STORE": "true", "MLFLOW_DISABLE_TELEMETRY": "true", **NOWHERE},
    )
    assert ended.status == 0, ended.stderr.decode()
    return ended.lines()[-1]


def test_a_report_is_added_to_the_mlflow_run_of_the_job(launcher: Launcher, job) -> None:
    """Pages, document and key numbers, found from what the job's environment said."""
    store = f"file:{launcher.work / 'store'}"
    run_id = _store(launcher, STARTED, store)
    run = job(MLFLOW_RUN_ID=run_id, MLFLOW_TRACKING_URI=store)

    ended = launcher.tfprobe("export", run, "--to", "mlflow", env=NOWHERE)

    assert (ended.status, ended.stderr) == (0, b"")
    assert run_id in ended.lines()[0]
    found = json.loads(_store(launcher, TRACKED, store, run_id))
    assert found["files"] == ["tfprobe/report.html", "tfprobe/report.json"]
    assert found["page"].startswith("<!doctype html>")
    assert found["report"]["schema"] == "tfprobe.report/1"
    assert (found["status"], found["tags"]["tfprobe.run"]) == ("FINISHED", "r1")
    metrics = found["metrics"]
    assert metrics["tfprobe/steps"] == 30
    assert metrics["tfprobe/step_ms"] == pytest.approx(8)
    shares = [value for name, value in metrics.items() if name.startswith("tfprobe/wall/")]
    assert sum(shares) == pytest.approx(1, abs=0.01)


def test_a_store_of_files_is_found_where_the_job_ran(launcher: Launcher, job) -> None:
    """MLflow takes it from there if no variable says otherwise; the run is named."""
    run_id = _store(launcher, STARTED, f"file:{launcher.work / 'mlruns'}")
    run = job()

    ended = launcher.tfprobe("export", run, "--to", "mlflow", "--run-id", run_id, env=NOWHERE)

    assert ended.status == 0, ended.stderr.decode()
    assert list(launcher.work.glob(f"mlruns/*/{run_id}/artifacts/tfprobe/report.html"))


def test_a_run_that_is_not_there_is_one_paragraph(launcher: Launcher, job) -> None:
    """And says how to name another."""
    store = f"file:{launcher.work / 'store'}"
    _store(launcher, STARTED, store)
    run = job(MLFLOW_RUN_ID="0" * 32, MLFLOW_TRACKING_URI=store)

    ended = launcher.tfprobe("export", run, "--to", "mlflow", env=NOWHERE)

    assert ended.status == 2
    assert ended.stderr.startswith(b"tfprobe: MLflow run 000")
    assert ended.stderr.count(b"\n") == 1
    assert b"--run-id" in ended.stderr


def test_a_report_is_added_to_the_offline_wandb_run_of_the_job(launcher: Launcher, job) -> None:
    """To a directory that `wandb sync` joins with the job's; no files of this machine are in it."""
    variables = {"WANDB_RUN_ID": "abc123", "WANDB_PROJECT": "mnist", "WANDB_MODE": "offline"}
    run = job(**variables)

    ended = launcher.tfprobe("export", run, "--to", "wandb", env=NOWHERE)

    assert ended.status == 0, ended.stderr.decode()
    (folder,) = launcher.work.glob("wandb/offline-run-*-abc123")
    (record,) = folder.glob("*.wandb")
    content = record.read_bytes()
    assert b"tfprobe/step_ms" in content
    assert b"report.html" in content
    assert [path for path in (folder / "files").rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("kind", ["mlflow", "wandb"])
def test_a_job_without_a_tracked_run_says_how_to_name_one(launcher: Launcher, job, kind) -> None:
    """Nothing is created: a report alone is no run."""
    ended = launcher.tfprobe("export", job(), "--to", kind, env=NOWHERE)

    assert ended.status == 2
    assert f"{kind.upper()}_RUN_ID" in ended.stderr.decode()
    assert list(launcher.work.iterdir()) == []


def test_secrets_of_trackers_are_not_recorded(launcher: Launcher) -> None:
    """The places are, without passwords; keys never."""
    variables = {
        "MLFLOW_RUN_ID": "17",
        "MLFLOW_TRACKING_URI": "https://ada:hunter2@tracker",
        "MLFLOW_TRACKING_TOKEN": "hunter2",
        "WANDB_API_KEY": "hunter2",
        "WANDB_PROJECT": "mnist",
    }

    ended = launcher.run("--", "true", env=variables)

    recorded = json.loads((ended.run / "run.json").read_text())["environment"]
    assert recorded == {"MLFLOW_RUN_ID": "17", "WANDB_PROJECT": "mnist"}
    assert subprocess.run(["grep", "-r", "hunter2", ended.run]).returncode == 1
