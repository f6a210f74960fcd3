"""Ask NVIDIA's management library about its accelerators. What one does not tell is None."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# Bits of nvmlClocksEventReasons, nvml.h. That the device idles (bit 0) holds no clock down.
_REASONS = (
    (0x002, "applications clocks setting"),
    (0x004, "power cap"),
    (0x008, "hardware slowdown"),
    (0x010, "sync boost"),
    (0x020, "software thermal slowdown"),
    (0x040, "hardware thermal slowdown"),
    (0x080, "hardware power brake"),
    (0x100, "display clocks setting"),
)
# What older drivers call it, and newer ones.
_CLOCK_REASONS = (
    "nvmlDeviceGetCurrentClocksThrottleReasons",
    "nvmlDeviceGetCurrentClocksEventReasons",
)
_TEMPERATURE = ("nvmlDeviceGetTemperature", "nvmlDeviceGetTemperatureV")
_MHZ = 1_000_000
# NVML counts PCIe traffic in KB a second.
_KB = 1000


class NvmlDevice:
    """One accelerator. Any: nvidia-ml-py has no types."""

    def __init__(self, library: Any, index: int) -> None:
        """Ask once for what does not change."""
        self._library = library
        self._index = index
        self._handle = library.nvmlDeviceGetHandleByIndex(index)
        self._name = _text(self._ask("nvmlDeviceGetName"))

    def sample(self) -> dict[str, Any]:
        """Return what it does now: one device of a line of machine/<host>.jsonl."""
        library = self._library
        utilization = self._ask("nvmlDeviceGetUtilizationRates")
        memory = self._ask("nvmlDeviceGetMemoryInfo")
        clock = getattr(library, "NVML_CLOCK_SM", 1)
        power = self._ask("nvmlDeviceGetPowerUsage")
        power_limit = self._ask("nvmlDeviceGetEnforcedPowerLimit")
        return {
            "index": self._index,
            "name": self._name,
            "utilization_ratio": _scaled(getattr(utilization, "gpu", None), 0.01),
            "memory_used_bytes": getattr(memory, "used", None),
            "memory_total_bytes": getattr(memory, "total", None),
            "power_watts": _scaled(power, 0.001),
            "power_limit_watts": _scaled(power_limit, 0.001),
            "sm_clock_hz": _scaled(self._ask("nvmlDeviceGetClockInfo", clock), _MHZ),
            "max_sm_clock_hz": _scaled(self._ask("nvmlDeviceGetMaxClockInfo", clock), _MHZ),
            "temperature_celsius": self._first(_TEMPERATURE, 0),
            "pcie_sent_bytes_per_s": _scaled(self._ask("nvmlDeviceGetPcieThroughput", 0), _KB),
            "pcie_received_bytes_per_s": _scaled(self._ask("nvmlDeviceGetPcieThroughput", 1), _KB),
            "throttle_reasons": self._reasons(),
        }

    def _reasons(self) -> list[str]:
        bits = self._first(_CLOCK_REASONS)
        return [name for bit, name in _REASONS if isinstance(bits, int) and bits & bit]

    def _first(self, functions: tuple[str, ...], *arguments: object) -> Any:
        answers = (self._ask(function, *arguments) for function in functions)
        return next((answer for answer in answers if answer is not None), None)

    def _ask(self, function: str, *arguments: object) -> Any:
        try:
            return getattr(self._library, function)(self._handle, *arguments)
        except Exception:
            # NVMLError of a device, driver or container that does not tell it.
            return None


def find(load: Callable[[], Any] | None = None) -> list[NvmlDevice]:
    """Return the accelerators of this machine; none where NVML or its Python module is absent."""
    try:
        library = (load or _load)()
        library.nvmlInit()
        count = library.nvmlDeviceGetCount()
    except Exception:
        return []
    return [device for index in range(count) if (device := _device(library, index)) is not None]


def _load() -> Any:
    import pynvml

    return pynvml


def _device(library: Any, index: int) -> NvmlDevice | None:
    try:
        return NvmlDevice(library, index)
    except Exception:
        # Lost, or closed to this container.
        return None


def _scaled(value: Any, factor: float) -> float | int | None:
    return None if value is None else value * factor


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value or "")
