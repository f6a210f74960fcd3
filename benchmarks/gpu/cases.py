"""Which planted loops are run, and in which ways, in JAX and in PyTorch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_JOBS = Path(__file__).resolve().parent / "jobs"
# Far enough apart that the steps between are plain; all are within the first 110 steps of a loop.
TRACED_STEPS = "20,60,100"
# XLA times kernels to choose among them, so that equal runs may have different bits.
DETERMINISTIC = "--xla_gpu_deterministic_ops=true --xla_gpu_autotune_level=0"
NO_COMMAND_BUFFER = "--xla_gpu_enable_command_buffer="


@dataclass(frozen=True, slots=True)
class Case:
    """One loop run in one way; `name` is that of its folder."""

    name: str
    loop: str
    record: tuple[str, ...] = ("--steps", TRACED_STEPS)
    environment: tuple[tuple[str, str], ...] = ()
    flags: str = ""
    is_for_gpu: bool = False
    repeats: int = 1


@dataclass(frozen=True, slots=True)
class Framework:
    """A framework, its loops, and what its processes are given.

    `probe` prints its versions and its device as JSON. `flags` are those of XLA to try on a GPU.
    """

    title: str
    job: Path
    probe: str
    cases: tuple[Case, ...]
    flags: tuple[str, ...] = ("",)
    environment: tuple[tuple[str, str], ...] = ()
    on_cpu: tuple[tuple[str, str], ...] = ()


_JAX_PROBE = """
import json, jax, jaxlib
device = jax.devices()[0]
print(json.dumps({"versions": f"JAX {jax.__version__}, jaxlib {jaxlib.__version__}",
                  "device": device.device_kind, "platform": device.platform}))
"""
_TORCH_PROBE = """
import json, torch
has_gpu = torch.cuda.is_available()
print(json.dumps({"versions": f"PyTorch {torch.__version__}, CUDA {torch.version.cuda}",
                  "device": torch.cuda.get_device_name() if has_gpu else "cpu",
                  "platform": "cuda" if has_gpu else "cpu"}))
"""
_ALIKE = (
    Case("kernel_bound", "kernel_bound"),
    Case("host_bound", "host_bound"),
    Case("input_bound", "input_bound"),
    Case("sync_bound", "sync_bound"),
    Case("copy_bound", "copy_bound"),
    Case("overlap", "overlap", is_for_gpu=True),
    Case("asynchronous", "asynchronous"),
)
# A plain budget, so that the cost is that of a user's job; alternately, because machines drift.
_TRAINING = Case("training", "training", record=(), repeats=3)
_OWN_PROFILER = Case("own_profiler", "own_profiler", record=("--every", "5"))

FRAMEWORKS: Mapping[str, Framework] = {
    "jax": Framework(
        "JAX",
        _JOBS / "jax_loops.py",
        _JAX_PROBE,
        (
            *_ALIKE,
            Case("command_buffer", "command_buffer"),
            Case("no_command_buffer", "command_buffer", flags=NO_COMMAND_BUFFER, is_for_gpu=True),
            Case("memory", "memory", environment=(("XLA_PYTHON_CLIENT_PREALLOCATE", "false"),)),
            _TRAINING,
            _OWN_PROFILER,
        ),
        flags=(DETERMINISTIC, ""),
        on_cpu=(("JAX_PLATFORMS", "cpu"),),
    ),
    "torch": Framework(
        "PyTorch",
        _JOBS / "torch_loops.py",
        _TORCH_PROBE,
        (
            *_ALIKE,
            Case("cuda_graph", "cuda_graph", is_for_gpu=True),
            Case("no_cuda_graph", "no_cuda_graph", is_for_gpu=True),
            Case("memory", "memory"),
            _TRAINING,
            _OWN_PROFILER,
        ),
        # Without it, cuBLAS may choose other kernels for equal products.
        environment=(("CUBLAS_WORKSPACE_CONFIG", ":4096:8"),),
        on_cpu=(("CUDA_VISIBLE_DEVICES", ""),),
    ),
}
