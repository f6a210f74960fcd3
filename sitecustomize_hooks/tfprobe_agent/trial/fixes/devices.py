"""Whether this machine has accelerators, by its device files: a framework would initialize them before the job does."""

from tfprobe_agent.interruptions import let_through
from tfprobe_agent.unpatched import UNPATCHED

# Of NVIDIA, in Windows' Linux, and of AMD.
GPUS = ("/dev/nvidiactl", "/dev/dxg", "/dev/kfd")
TPUS = ("/dev/accel0", "/dev/vfio/0")


def has_gpu():
    """Return whether there is a GPU."""
    return any(map(_exists, GPUS))


def has_accelerator():
    """Return whether there is a GPU or a TPU."""
    return has_gpu() or any(map(_exists, TPUS))


def _exists(path):
    try:
        UNPATCHED.stat(path)
    except OSError:
        let_through()
        return False
    return True
