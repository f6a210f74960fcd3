"""Multiply float32 matrices on accelerators in the format `value`, or JAX's default where a program asks for more."""

from tfprobe_agent.interruptions import let_through
from tfprobe_agent.trial.fixes.calls import replace
from tfprobe_agent.unpatched import UNPATCHED

MODULES = ("jax",)
_OPTION = "jax_default_matmul_precision"
_PRECISION = "default"
# Devices of NVIDIA, of AMD, and TPUs. Asking JAX would initialize them before the program does.
_DEVICES = ("/dev/nvidiactl", "/dev/dxg", "/dev/kfd", "/dev/accel0", "/dev/vfio/0")


def patch(name, module, value, note):
    """Set the option, and give it this value wherever the program sets it."""
    precision = _PRECISION if value is None else value
    config = module.config
    if config.jax_platforms == "cpu" or not any(map(_exists, _DEVICES)):
        note.skipped("there is no accelerator")
        return

    def around(original):
        def update(self, option, setting):
            if option != _OPTION or setting in (precision, None):
                return original(self, option, setting)
            note.applied()
            return original(self, option, precision)

        return update

    before = config.jax_default_matmul_precision
    if before == precision or (before is None and precision == _PRECISION):
        note.skipped("is %s already" % precision)
    else:
        config.update(_OPTION, precision)
        note.applied()
    replace(type(config), "update", around)


def _exists(path):
    try:
        UNPATCHED.stat(path)
    except OSError:
        let_through()
        return False
    return True
