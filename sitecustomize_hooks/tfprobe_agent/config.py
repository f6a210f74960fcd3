"""The launcher's decisions, read once from config.json. No other module of the agent reads environment variables."""

import os
from json import loads

from . import redact
from .unpatched import read_file

# A profiler that attaches to the process through CUPTI sets one of these.
_FOREIGN_PROFILER_VARIABLES = (
    "NSYS_PROFILING_SESSION_ID",
    "NV_NSIGHT_INJECTION_PORT_BASE",
    "NV_NSIGHT_INJECTION_TRANSPORT_TYPE",
    "CUDA_INJECTION64_PATH",
    "NVTX_INJECTION64_PATH",
    "COMPUTE_PROFILE",
    "CUDA_PROFILE",
)


# Variables that affect the speed of a framework, and no others: TF_TOKEN_x and TF_VAR_x belong to Terraform and are
# secret.
_SPEED_VARIABLES = (
    "CUBLAS_WORKSPACE_CONFIG",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_VISIBLE_DEVICES",
    "KMP_AFFINITY",
    "KMP_BLOCKTIME",
    "MKL_NUM_THREADS",
    "NCCL_DEBUG",
    "NCCL_IB_DISABLE",
    "NCCL_P2P_DISABLE",
    "NVIDIA_TF32_OVERRIDE",
    "OMP_NUM_THREADS",
    "OMP_PROC_BIND",
    "OMP_WAIT_POLICY",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_NO_CUDA_MEMORY_CACHING",
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
    "TORCHDYNAMO_DISABLE",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
    "TORCH_CUDNN_V8_API_DISABLED",
    "TORCH_NCCL_BLOCKING_WAIT",
    "TF_XLA_FLAGS",
    "XLA_FLAGS",
)
_LONGEST_VALUE = 1000
# Variables in which launchers pass its rank to each process of a job.
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
    "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_RESTART_COUNT",
    "JOB_COMPLETION_INDEX",
)
# Variables in which Jupyter servers and papermill pass a kernel the path of its notebook.
_NOTEBOOK_VARIABLES = ("JPY_SESSION_NAME", "PAPERMILL_INPUT_PATH")


class Config:
    """Tracing configuration: inclusive pairs in `steps` or None, `every` or None, a `budget` ratio, `trace_level`.

    `trial` says what an arm of a trial is to do, as a dict; None outside trials.
    """

    def __init__(self, steps=None, every=None, budget=0.01, trace_level="full", trial=None):
        self.steps = steps
        self.every = every
        self.budget = budget
        self.trace_level = trace_level
        self.trial = trial


def read_config(boot):
    """Read `boot`/config.json; raise OSError or ValueError when it is missing or corrupt."""
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
    every = None if every is None else int(every)
    return Config(steps, every, float(document["budget"]), trace_level, _trial(document.get("trial")))


def _trial(trial):
    """Return the settings of an arm of a trial, or None; raise ValueError if they are of no use."""
    if trial is None:
        return None
    unit = trial.get("unit")
    if not (isinstance(trial.get("fixes"), dict) and (unit is None or {"kind", "name"} <= set(unit))):
        raise ValueError("a trial with fixes %r and unit %r" % (trial.get("fixes"), unit))
    for key in ("weights_at", "warm_units", "seconds", "units", "seed"):
        if isinstance(trial.get(key), bool) or not isinstance(trial.get(key), (int, float)) or trial[key] < 0:
            raise ValueError("a trial with %s %r" % (key, trial.get(key)))
    return trial


def debug_file():
    """Return the path in TFPROBE_DEBUG, or None."""
    return os.environ.get("TFPROBE_DEBUG") or None


def ptracer():
    """Return the pid in TFPROBE_PTRACER, of the process that may read this one, or None."""
    pid = os.environ.get("TFPROBE_PTRACER", "")
    return int(pid) if pid.isdigit() else None


def profiling_disabled():
    """Return whether the job forbids TensorFlow's profiler. Read each time: the job may set the variable as it runs."""
    return "TF_DISABLE_PROFILING" in os.environ


def foreign_profiler():
    """Return the name of the variable that shows a CUPTI tool attached to this process, or None."""
    for name in _FOREIGN_PROFILER_VARIABLES:
        if os.environ.get(name):
            return name
    return None


def kineto_daemon():
    """Return whether PyTorch's profiler takes requests of a daemon, at any time."""
    return "KINETO_USE_DAEMON" in os.environ


def kineto_log_level():
    """Return what the job has set PyTorch's profiler to write to stderr, or None."""
    return os.environ.get("KINETO_LOG_LEVEL")


def rank_variables():
    """Return the variables in which launchers pass a process its rank."""
    return {name: os.environ[name] for name in _RANK_VARIABLES if name in os.environ}


def notebook_path():
    """Return the path of the notebook that a front end names in the environment, or ""."""
    return ([os.environ[name] for name in _NOTEBOOK_VARIABLES if os.environ.get(name)] or [""])[0]


def speed_variables():
    """Return the variables that the job's speed depends on, with secrets masked."""
    return {name: redact.text(os.environ[name])[:_LONGEST_VALUE] for name in _SPEED_VARIABLES if name in os.environ}
