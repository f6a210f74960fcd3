"""What of PyTorch's set-up the job's speed depends on, the devices, and whether the process only starts others."""

import os
import sys

from tfprobe_agent.config import speed_variables
from tfprobe_agent.core.guard import never_raise_noting
from tfprobe_agent.core.process_dir import command_line
from tfprobe_agent.core.recorder import current_recorder
from tfprobe_agent.interruptions import let_through
from tfprobe_agent.unpatched import UNPATCHED

_LAUNCHERS = ("torchrun", "accelerate", "accelerate-launch", "deepspeed")
_LAUNCHING_MODULES = (
    "torch.distributed.run", "torch.distributed.launch", "torch.distributed.launcher", "accelerate.commands.launch",
    "torch._inductor.compile_worker",
)  # fmt: skip


def starts_others():
    """Return whether this process starts those that train, or helps one: it is recorded only if it runs steps."""
    arguments = command_line()
    if any(argument.startswith("from multiprocessing.") or "loky.backend" in argument for argument in arguments):
        return True
    names = [os.path.basename(argument) for argument in arguments[:2]]
    return not set(names).isdisjoint(_LAUNCHERS) or any(
        argument.startswith(_LAUNCHING_MODULES) or "_inductor/compile_worker" in argument for argument in arguments[:4]
    )


@never_raise_noting
def write():
    """Write the settings event."""
    began_ns = UNPATCHED.monotonic_ns()
    torch, recorder = sys.modules["torch"], current_recorder()
    backends = torch.backends
    known = {
        "float32_matmul_precision": _or_none(torch.get_float32_matmul_precision),
        "cudnn_benchmark": _or_none(lambda: backends.cudnn.benchmark),
        "cudnn_deterministic": _or_none(lambda: backends.cudnn.deterministic),
        "deterministic_algorithms": _or_none(torch.are_deterministic_algorithms_enabled),
        "default_dtype": _or_none(lambda: str(torch.get_default_dtype())),
        "anomaly_detection": _or_none(torch.is_anomaly_enabled),
        "num_threads": _or_none(torch.get_num_threads),
        "num_interop_threads": _or_none(torch.get_num_interop_threads),
    }
    cpus = _or_none(lambda: len(UNPATCHED.sched_getaffinity(0)))
    recorder.process_dir.event("settings", settings={"cpus": cpus, "environment": speed_variables(), "torch": known})
    note_devices(recorder)
    recorder.spent_once(UNPATCHED.monotonic_ns() - began_ns)


@never_raise_noting
def note_devices(recorder):
    """Store the devices that the job uses; this initializes none."""
    if recorder.process_dir.devices is not None:
        return
    torch = sys.modules["torch"]
    devices = [{"name": "/device:CPU:0", "type": "CPU", "description": ""}]
    if torch.cuda.is_initialized():
        devices += [
            {"name": "/device:GPU:%d" % index, "type": "GPU", "description": torch.cuda.get_device_name(index)}
            for index in range(torch.cuda.device_count())
        ]
    recorder.process_dir.devices = devices
    recorder.write_process()
    recorder.process_dir.event("devices", devices=devices)


def _or_none(read):
    try:
        return read()
    except Exception:
        let_through()
        return None  # not in this version
