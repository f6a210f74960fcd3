"""What the launcher decided, read once from config.json; the only place of the agent that reads variables."""

import os
from json import loads

from . import redact
from .unpatched import read_file

# A profiler that is attached to the process through CUPTI leaves one of these behind.
_FOREIGN_PROFILER_VARIABLES = (
    "NSYS_PROFILING_SESSION_ID",
    "CUDA_INJECTION64_PATH",
    "NVTX_INJECTION64_PATH",
    "COMPUTE_PROFILE",
    "CUDA_PROFILE",
)


# What the speed of TensorFlow depends on, and no other variable: TF_TOKEN_x and TF_VAR_x are Terraform's, and secret.
_SPEED_VARIABLES = (
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_VISIBLE_DEVICES",
    "KMP_AFFINITY",
    "KMP_BLOCKTIME",
    "MKL_NUM_THREADS",
    "NVIDIA_TF32_OVERRIDE",
    "OMP_NUM_THREADS",
    "OMP_PROC_BIND",
    "OMP_WAIT_POLICY",
    "TF_CUDNN_DETERMINISTIC",
    "TF_CUDNN_USE_AUTOTUNE",
    "TF_DETERMINISTIC_OPS",
    "TF_DISABLE_MKL",
    "TF_ENABLE_AUTO_MIXED_PRECISION",
    "TF_ENABLE_AUTO_MIXED_PRECISION_GRAPH_REWRITE",
    "TF_ENABLE_ONEDNN_OPTS",
    "TF_FORCE_GPU_ALLOW_GROWTH",
    "TF_GPU_ALLOCATOR",
    "TF_GPU_THREAD_COUNT",
    "TF_GPU_THREAD_MODE",
    "TF_NUM_INTEROP_THREADS",
    "TF_NUM_INTRAOP_THREADS",
    "TF_USE_LEGACY_KERAS",
    "TF_XLA_FLAGS",
    "XLA_FLAGS",
)
_LONGEST_VALUE = 1000
# Who starts the ranks of a job, and by which variables each of them is told its own.
_RANK_VARIABLES = (
    "TF_CONFIG",
    "HOROVOD_RANK",
    "HOROVOD_SIZE",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "MV2_COMM_WORLD_RANK",
    "MV2_COMM_WORLD_SIZE",
    "PMI_RANK",
    "PMI_SIZE",
    "PMIX_RANK",
    "PMIX_NAMESPACE",
    "SLURM_PROCID",
    "SLURM_NTASKS",
    "SLURM_STEP_ID",
    "SLURM_STEPID",
    "SLURM_STEP_NUM_TASKS",
    "RANK",
    "WORLD_SIZE",
    "MASTER_ADDR",
    "JOB_COMPLETION_INDEX",
)


class Config:
    """Sampling configuration: `steps` inclusive pairs or None, `every` or None, `budget` ratio, `trace_level`."""

    def __init__(self, steps=None, every=None, budget=0.01, trace_level="full"):
        self.steps = steps
        self.every = every
        self.budget = budget
        self.trace_level = trace_level


def read_config(boot):
    """Read `boot`/config.json; raises OSError or ValueError when it is missing or corrupt."""
    document = loads(read_file(os.path.join(boot, "config.json")).decode("utf-8"))
    if document["schema"] != "tfprobe.config/1":
        raise ValueError("unknown config schema %r" % (document["schema"],))
    steps = document.get("steps")
    if steps is not None:
        steps = tuple((int(first), int(last)) for first, last in steps)
    every = document.get("every")
    if every is not None and int(every) < 1:
        raise ValueError("every must be at least 1, not %r" % (every,))
    trace_level = document["trace_level"]
    if trace_level not in ("full", "software", "off"):
        raise ValueError("unknown trace level %r" % (trace_level,))
    return Config(steps, None if every is None else int(every), float(document["budget"]), trace_level)


def debug_file():
    """Return the path of TFPROBE_DEBUG, or None."""
    return os.environ.get("TFPROBE_DEBUG") or None


def ptracer():
    """Return the pid of TFPROBE_PTRACER, by which this process may want to be read, or None."""
    pid = os.environ.get("TFPROBE_PTRACER", "")
    return int(pid) if pid.isdigit() else None


def profiling_disabled():
    """Tell whether the job forbids TensorFlow's profiler (read each time: a job may set it while it runs)."""
    return "TF_DISABLE_PROFILING" in os.environ


def foreign_profiler():
    """Return the name of the variable that shows a CUPTI tool attached to this process, or None."""
    for name in _FOREIGN_PROFILER_VARIABLES:
        if os.environ.get(name):
            return name
    return None


def rank_variables():
    """Return the variables in which launchers tell a process its rank."""
    return {name: os.environ[name] for name in _RANK_VARIABLES if name in os.environ}


def speed_variables():
    """Return those variables of the job that its speed depends on, as they may be stored."""
    return {name: redact.text(os.environ[name])[:_LONGEST_VALUE] for name in _SPEED_VARIABLES if name in os.environ}
