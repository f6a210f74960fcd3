"""What of JAX's set-up the job's speed depends on, and the devices of the process. JAX is not called for them."""

import re
import sys

from tfprobe_agent.core.guard import STATE, failed, never_raise_noting
from tfprobe_agent.frameworks import general_settings

_CONFIG = "jax._src.config"
_BACKENDS = "jax._src.xla_bridge"
_SETTINGS = (
    "jax_enable_x64",
    "jax_default_matmul_precision",
    "jax_debug_nans",
    "jax_disable_jit",
    "jax_threefry_partitionable",
)
_LONGEST = 200


def jaxlib_version():
    """Return the first two numbers of jaxlib's version; (0, 0) if it has none."""
    version = getattr(sys.modules.get("jaxlib"), "__version__", None)
    numbers = re.match(r"(\d+)\.(\d+)", version if isinstance(version, str) else "")
    return tuple(map(int, numbers.groups())) if numbers else (0, 0)


@never_raise_noting
def write():
    """Write the settings event."""
    general_settings.write(lambda: {"jax": {name: _plain(value(name)) for name in _SETTINGS}})


def note_devices(recorder):
    """Store the devices of the back ends that the job has initialized; this initializes none."""
    try:
        backends = getattr(sys.modules.get(_BACKENDS), "_backends", None) or {}
        devices = [
            {
                "name": "/device:%s:%d" % (device.platform.upper(), device.id),
                "type": device.platform.upper(),
                "description": str(device.device_kind)[:_LONGEST],
            }
            for client in list(backends.values())
            for device in client.local_devices()
        ]
        recorder.process_dir.devices = devices
        recorder.write_process()
        recorder.process_dir.event("devices", devices=devices)
    except Exception:
        failed("note_devices", tracing_only=STATE.tracing)


def value(name):
    """Return one of JAX's options as the program has set it; None if it is not known."""
    values = getattr(getattr(sys.modules.get(_CONFIG), "config", None), "values", None) or {}
    return values.get(name)


def _plain(value):
    if value is None or isinstance(value, (bool, int, float)):
        return value
    return str(value)[:_LONGEST]
