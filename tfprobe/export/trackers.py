"""Add a report to a run of MLflow or Weights & Biases. Clients are imported when asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tfprobe.errors import UsageError

# Below this path in the artifacts of the tracked run.
_FOLDER = "tfprobe"
# The tag, or key of the configuration, that names the recording.
_TAG = "tfprobe.run"


@dataclass(frozen=True, slots=True)
class TrackedRun:
    """The run of a tracker that a report goes to.

    `variables` are those of the recorded job, and over them those of this command, that say where
    its tracker is. `directory` is where the job ran: relative paths begin there.
    """

    id: str
    variables: Mapping[str, str]
    directory: Path


@dataclass(frozen=True, slots=True)
class TrackedReport:
    """What is added: files, metrics by name, and the id of the recording."""

    files: tuple[Path, ...]
    metrics: Mapping[str, float]
    recording: str


def to_mlflow(run: TrackedRun, report: TrackedReport) -> str:
    """Add files, metrics and a tag to a run of MLflow; return where it is.

    Raises UsageError where MLflow is not installed or refuses.
    """
    try:
        from mlflow import MlflowClient
        from mlflow.entities import Metric, RunTag
        from mlflow.exceptions import MlflowException
    except ImportError as exc:
        raise _absent("MLflow", "mlflow", exc) from exc
    from time import time_ns

    uri = _store(run)
    try:
        client = MlflowClient(uri)
        now_ms = time_ns() // 1_000_000
        metrics = [Metric(name, value, now_ms, 0) for name, value in report.metrics.items()]
        client.log_batch(run.id, metrics=metrics, tags=[RunTag(_TAG, report.recording)])
        for file in report.files:
            client.log_artifact(run.id, str(file), _FOLDER)
    except (MlflowException, OSError, ImportError) as exc:  # a store in a database needs SQLAlchemy
        first = _first_line(exc)
        hint = "Name another run with --run-id, and the store with MLFLOW_TRACKING_URI."
        raise UsageError(f"MLflow run {run.id} cannot be added to: {first}", hint=hint) from exc
    return f"MLflow run {run.id}, artifacts below {_FOLDER}/"


def _store(run: TrackedRun) -> str | None:
    """Return the store of the job; where none is named, its files where the job ran, if any."""
    uri = run.variables.get("MLFLOW_TRACKING_URI", "")
    if uri and ":" not in uri:
        return str(run.directory / uri)
    if uri:
        return uri
    files = run.directory / "mlruns"
    return str(files) if files.is_dir() else None


def to_wandb(run: TrackedRun, report: TrackedReport) -> str:
    """Add files and a summary to a run of W&B; return where it is.

    The job's own mode counts: of a job that ran offline, it is another offline directory of its
    run, which `wandb sync` joins. Nothing else of this process or machine is added.

    Raises UsageError where wandb is not installed or refuses.
    """
    try:
        import wandb
        from wandb.errors import Error
    except ImportError as exc:
        raise _absent("W&B", "wandb", exc) from exc

    *place, name = run.id.split("/")
    variables = run.variables
    entity = place[0] if len(place) == 2 else variables.get("WANDB_ENTITY")
    project = place[-1] if place else variables.get("WANDB_PROJECT")
    folder = run.directory / variables.get("WANDB_DIR", "")
    settings = wandb.Settings(
        base_url=variables.get("WANDB_BASE_URL") or wandb.Settings().base_url,
        console="off",
        disable_code=True,
        disable_git=True,
        disable_job_creation=True,
        silent=True,
        x_disable_meta=True,
        x_disable_stats=True,
        x_save_requirements=False,
    )
    try:
        with wandb.init(
            id=name,
            entity=entity,
            project=project,
            mode=_mode(variables.get("WANDB_MODE")),
            dir=str(folder),
            resume="allow",
            settings=settings,
            force=True,
        ) as tracked:
            tracked.summary.update({**report.metrics, _TAG: report.recording})
            artifact = wandb.Artifact(f"tfprobe-{name}", type="report")
            for file in report.files:
                artifact.add_file(str(file))
            tracked.log_artifact(artifact)
            where = tracked.dir if tracked.offline else tracked.url
    except (Error, OSError, ValueError) as exc:
        first = _first_line(exc)
        hint = "Name another run with --run-id ENTITY/PROJECT/ID; `wandb login` gives access."
        raise UsageError(f"W&B run {run.id} cannot be added to: {first}", hint=hint) from exc
    return f"W&B run {name}, {where}"


def _mode(name: str | None) -> Literal["offline", "online"]:
    """Return the mode of the job's run: offline, too, if it was to send nothing in another way."""
    return "online" if name in (None, "", "online", "run") else "offline"


def _first_line(error: Exception) -> str:
    return str(error).split("\n", 1)[0].rstrip(".") + "."


def _absent(name: str, extra: str, reason: ImportError) -> UsageError:
    return UsageError(
        f"{name} is not installed here ({reason}).",
        hint=f"Install it with `pip install 'tfprobe[{extra}]'`.",
    )


# What these clients do unless a variable says otherwise: they report their own use and errors to
# their makers, and MLflow refuses stores that are directories, also to add to a run in one.
QUIET = {
    "MLFLOW_ALLOW_FILE_STORE": "true",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "WANDB_ERROR_REPORTING": "false",
}
# By --to: the client, and the variable in which a job has the id of its run.
TRACKERS: Mapping[str, tuple[Callable[[TrackedRun, TrackedReport], str], str]] = {
    "mlflow": (to_mlflow, "MLFLOW_RUN_ID"),
    "wandb": (to_wandb, "WANDB_RUN_ID"),
}
# Variables that say where a job's tracker is. Keys and passwords are none of them.
VARIABLES = (
    "MLFLOW_TRACKING_URI",
    "WANDB_BASE_URL",
    "WANDB_DIR",
    "WANDB_ENTITY",
    "WANDB_MODE",
    "WANDB_PROJECT",
)
