"""What else on this machine may hold the profiler: other tools, and the driver's rights."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from tfprobe.launch import ptrace, stacks
from tfprobe.launch.doctor.check import Check

# The driver says here who may read hardware counters; without it there is no NVIDIA driver.
_DRIVER_PARAMETERS = Path("/proc/driver/nvidia/params")
_OTHER_TOOLS = (
    ("COMPUTE_PROFILE", "the CUDA command line profiler"),
    ("CUDA_INJECTION64_PATH", "a CUDA tool such as Nsight or nvprof"),
    ("CUDA_PROFILE", "the CUDA command line profiler"),
    ("NSYS_PROFILING_SESSION_ID", "Nsight Systems"),
    ("NVTX_INJECTION64_PATH", "a CUDA tool such as Nsight or nvprof"),
)


def checks(environment: Mapping[str, str], parameters: Path = _DRIVER_PARAMETERS) -> list[Check]:
    """Look for whatever would take the accelerator's events, or the stacks, away."""
    return [_profiler(environment), *_counter_rights(parameters), *_stacks(environment)]


def _profiler(environment: Mapping[str, str]) -> Check:
    if "TF_DISABLE_PROFILING" in environment:
        return Check.warning(
            "profiler",
            "TF_DISABLE_PROFILING is set: steps are counted and timed, ops are not.",
            "Unset TF_DISABLE_PROFILING.",
        )
    for variable, tool in _OTHER_TOOLS:
        if environment.get(variable):
            return Check.warning(
                "profiler",
                f"{variable} is set: {tool} holds the accelerator's events, "
                "so ops are timed on the host only.",
                f"Run without {tool}.",
            )
    return Check.passed("profiler", "No other profiler is in the way.")


def _stacks(environment: Mapping[str, str]) -> list[Check]:
    if stacks.find_reader(environment) is None:
        return []  # it is an extra, and `run --stacks` says so
    refusal = ptrace.refusal()
    if refusal is None:
        return [Check.passed("stacks", "Python stacks can be read from outside, by run --stacks.")]
    return [
        Check.warning(
            "stacks",
            f"run --stacks cannot read Python stacks: {refusal}.",
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
                "The NVIDIA driver lets only root profile: ops are timed on the host only.",
                "Ask for the driver option NVreg_RestrictProfilingToAdminUsers=0.",
            )
        ]
    return [Check.passed("cupti", "The NVIDIA driver lets this user profile.")]
