"""What of PyTorch's set-up the job's speed depends on, the devices, and whether the process only starts others."""

import os
import sys

from tfprobe_agent.core.guard import never_raise_noting
from tfprobe_agent.core.process_dir import command_line, is_spawned
from tfprobe_agent.core.recorder import current_recorder
from tfprobe_agent.frameworks import general_settings
from tfprobe_agent.frameworks.general_settings import or_none

_LAUNCHERS = ("torchrun", "accelerate", "accelerate-launch", "deepspeed")
_LAUNCHING_MODULES = (
    "torch.distributed.run", "torch.distributed.launch", "torch.distributed.launcher", "accelerate.commands.launch",
    "torch._inductor.compile_worker",
)  # fmt: skip


def starts_others():
    """Return whether this process starts those that train, or helps one: it is recorded only if it runs steps."""
    arguments = command_line()
    if is_spawned(arguments):
        return True
    names = [os.path.basename(argument) for argument in arguments[:2]]
    return not set(names).isdisjoint(_LAUNCHERS) or any(
        [
            argument.startswith(_LAUNCHING_MODULES) or "_inductor/compile_worker" in argument
            for argument in arguments[:4]
        ]
    )


@never_raise_noting
def write():
    """Write the settings event, and the devices if they are not known yet."""
    general_settings.write(lambda: {"torch": {name: or_none(read) for name, read in _SETTINGS.items()}})
    note_devices(current_recorder())


def _torch():
    return sys.modules["torch"]


_SETTINGS = {
    "float32_matmul_precision": lambda: _torch().get_float32_matmul_precision(),
    "cudnn_benchmark": lambda: _torch().backends.cudnn.benchmark,
    "cudnn_deterministic": lambda: _torch().backends.cudnn.deterministic,
    "deterministic_algorithms": lambda: _torch().are_deterministic_algorithms_enabled(),
    "default_dtype": lambda: str(_torch().get_default_dtype()),
    "anomaly_detection": lambda: _torch().is_anomaly_enabled(),
    "num_threads": lambda: _torch().get_num_threads(),
    "num_interop_threads": lambda: _torch().get_num_interop_threads(),
}


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
