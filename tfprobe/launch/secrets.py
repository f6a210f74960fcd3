"""What may be stored of a stranger's command and environment. Decides by names and shapes alone."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping

MASK = "***"

# Stored: what shapes how TensorFlow runs, and which worker this is. All else is private.
ALLOWED_NAMES = frozenset(
    {
        "CUDA_DEVICE_ORDER",
        "CUDA_VISIBLE_DEVICES",
        "GOMP_CPU_AFFINITY",
        "HOROVOD_LOCAL_RANK",
        "HOROVOD_RANK",
        "HOROVOD_SIZE",
        "JOB_COMPLETION_INDEX",
        "KERAS_BACKEND",
        "KMP_AFFINITY",
        "KMP_BLOCKTIME",
        "KMP_SETTINGS",
        "MKL_NUM_THREADS",
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
        "XLA_FLAGS",
    }
)
ALLOWED_PREFIXES = ("TF_", "TFPROBE_")

_SECRET_WORDS = frozenset(
    {
        *("apikey", "auth", "authorization", "bearer", "cookie", "credential", "credentials"),
        *(
            "passphrase",
            "passwd",
            "password",
            "passwords",
            "pw",
            "pwd",
            "secret",
            "secrets",
            "token",
        ),
    }
)
_SECRET_PAIRS = frozenset(
    (first, "key")
    for first in ("access", "account", "api", "auth", "encryption", "private", "secret", "signing")
)
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
# Told by their shape: OpenAI, GitHub, Hugging Face, AWS, Slack, GitLab, JWT.
_SECRET_SHAPE = re.compile(
    r"\b(?:sk-[\w-]{16,}|gh[pousr]_\w{16,}|github_pat_\w{16,}|hf_\w{16,}|AKIA[0-9A-Z]{12,}"
    r"|xox[abprs]-[\w-]{10,}|glpat-[\w-]{16,}|eyJ[\w-]{8,}\.[\w-]+\.[\w-]*)"
)
_URL_PASSWORD = re.compile(r"(\w+://[^/\s:@]*:)[^/\s]+@")
_ASSIGNMENT = re.compile(
    r"(-{0,2}[A-Za-z][\w.-]*[\"']?)(\s*[=:]\s*)((?:Bearer\s+|Basic\s+)?[^\s;&|]+)"
)
_OPTION_IN_TEXT = re.compile(r"(--?[A-Za-z][\w.-]*)(\s+)([^\s;&|-][^\s;&|]*)")


def mask_arguments(arguments: Iterable[str]) -> list[str]:
    """Copy a command line with everything that looks secret replaced by `***`."""
    masked: list[str] = []
    is_value_secret = False
    for argument in arguments:
        if is_value_secret and not argument.startswith("--"):
            masked.append(MASK)
            is_value_secret = False
            continue
        masked.append(mask_text(argument))
        is_value_secret = argument.startswith("-") and "=" not in argument and is_secret(argument)
    return masked


def mask_text(text: str) -> str:
    """Mask what looks secret inside one argument, which may be a whole shell script."""
    name, equals, _ = text.partition("=")
    if equals and re.fullmatch(r"-{0,2}[\w.-]+", name) and is_secret(name):
        return f"{name}={MASK}"
    text = _URL_PASSWORD.sub(rf"\1{MASK}@", text)
    text = _SECRET_SHAPE.sub(MASK, text)
    text = _ASSIGNMENT.sub(_mask_value, text)
    return _OPTION_IN_TEXT.sub(_mask_value, text)


def is_secret(name: str) -> bool:
    """Tell by its words whether a name holds a secret: `hf_token` does, `tokenizer` does not."""
    words = [word.lower() for word in _WORD.findall(name)]
    pairs = itertools.pairwise(words)
    return not _SECRET_WORDS.isdisjoint(words) or not _SECRET_PAIRS.isdisjoint(pairs)


def recorded_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Pick the variables that explain how TensorFlow ran; never one that may hold a secret."""
    return {
        name: value
        for name, value in sorted(environment.items())
        if _is_allowed(name) and not is_secret(name) and mask_text(value) == value
    }


def _is_allowed(name: str) -> bool:
    return name in ALLOWED_NAMES or name.startswith(ALLOWED_PREFIXES)


def _mask_value(match: re.Match[str]) -> str:
    name, between, _ = match.groups()
    return f"{name}{between}{MASK}" if is_secret(name) else match.group()
