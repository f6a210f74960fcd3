"""Decide which environment variables of a job may be stored."""

from __future__ import annotations

from collections.abc import Mapping

from tfprobe.runs.agent_files import MASK, is_secret, mask_text

# Stored: what affects how a framework runs, which worker this is, and which run of a tracker the
# job has. Everything else is private.
ALLOWED_NAMES = frozenset(
    {
        "CUDA_DEVICE_ORDER",
        "CUDA_VISIBLE_DEVICES",
        "GOMP_CPU_AFFINITY",
        "HOROVOD_LOCAL_RANK",
        "HOROVOD_RANK",
        "HOROVOD_SIZE",
        "GROUP_RANK",
        "JOB_COMPLETION_INDEX",
        "KERAS_BACKEND",
        "KMP_AFFINITY",
        "KMP_BLOCKTIME",
        "KMP_SETTINGS",
        "LOCAL_RANK",
        "LOCAL_WORLD_SIZE",
        "MKL_NUM_THREADS",
        "MLFLOW_RUN_ID",
        "MLFLOW_TRACKING_URI",
        "MV2_COMM_WORLD_RANK",
        "MV2_COMM_WORLD_SIZE",
        "NVIDIA_VISIBLE_DEVICES",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMP_NUM_THREADS",
        "OMP_PROC_BIND",
        "OPENBLAS_NUM_THREADS",
        "PMIX_RANK",
        "PMI_RANK",
        "PMI_SIZE",
        "RANK",
        "ROCR_VISIBLE_DEVICES",
        "SLURM_ARRAY_JOB_ID",
        "SLURM_ARRAY_TASK_ID",
        "SLURM_JOB_ID",
        "SLURM_JOB_NODELIST",
        "SLURM_JOB_NUM_NODES",
        "SLURM_LOCALID",
        "SLURM_NODEID",
        "SLURM_NTASKS",
        "SLURM_PROCID",
        "SLURM_STEP_ID",
        "SLURM_STEP_NUM_TASKS",
        "TENSORFLOW_MODELS_TRACE_LEVEL",
        "TORCHELASTIC_MAX_RESTARTS",
        "TORCHELASTIC_RESTART_COUNT",
        "TORCHELASTIC_RUN_ID",
        "WANDB_BASE_URL",
        "WANDB_DIR",
        "WANDB_ENTITY",
        "WANDB_MODE",
        "WANDB_PROJECT",
        "WANDB_RUN_ID",
        "WORLD_SIZE",
        "XLA_FLAGS",
    }
)
ALLOWED_PREFIXES = ("TF_", "TFPROBE_")


def recorded_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that explain how TensorFlow ran, never one that may hold a secret."""
    return {
        name: value
        for name, value in sorted(environment.items())
        if _is_allowed(name) and not is_secret(name) and mask_text(value) == value
    }


def masked(values: Mapping[str, str]) -> dict[str, str]:
    """Mask values that look like secrets among variables that the user chose to store."""
    return {name: MASK if is_secret(name) else mask_text(value) for name, value in values.items()}


def _is_allowed(name: str) -> bool:
    return name in ALLOWED_NAMES or name.startswith(ALLOWED_PREFIXES)
