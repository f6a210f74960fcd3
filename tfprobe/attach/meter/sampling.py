"""Sample accelerators once a second until the job has ended. Costs next to nothing."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from tfprobe.runs import safe_files
from tfprobe.runs.layout import RunFolder
from tfprobe.runs.proc import PROC, started_ticks
from tfprobe.runs.safe_files import content_of

PAUSE_S = 1.0
# The time within which the end of a job is noticed.
LOOK_S = 0.25
# A job of days gets this many samples, then as many at twice the interval, and so on.
SAMPLES_AT_A_PAUSE = 1000
# Share of one CPU: if driver queries cost more, they become less frequent.
MOST_CPU_RATIO = 0.004


class Accelerator(Protocol):
    """A device that can be sampled."""

    def sample(self) -> dict[str, Any]:
        """Return one device of a line of machine/<host>.jsonl. Any: numbers, strings, None."""


def sample_until_end(job: Job, accelerators: Sequence[Accelerator], path: Path) -> None:
    """Append a line now, then one per second; the last within a second of the job's end."""
    file = _open(path)
    taken = 0
    while job.is_running() and job.has_run_directory():
        began_cpu_s = time.process_time()
        devices = [accelerator.sample() for accelerator in accelerators]
        line = json.dumps({"unix_ns": time.time_ns(), "devices": devices}) + "\n"
        os.write(file, line.encode())
        job.look_for_more()
        pause_s = PAUSE_S * (1 << min(taken // SAMPLES_AT_A_PAUSE, 20))
        taken += 1
        cost_s = time.process_time() - began_cpu_s
        _wait(job, max(pause_s, cost_s / MOST_CPU_RATIO))


def _open(path: Path) -> int:
    run = path.parents[1]
    with safe_files.directory(run, path.parent, make=True):
        return safe_files.opened(run, path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)


def _wait(job: Job, pause_s: float) -> None:
    """Sleep until the next sample is due or the job has ended."""
    due_s = time.monotonic() + pause_s
    while job.is_running():
        left_s = due_s - time.monotonic()
        if left_s <= 0:
            return
        if left_s > PAUSE_S:
            job.look_for_more()
        time.sleep(min(left_s, LOOK_S))


class Job:
    """The processes of a run on this host. A process is its pid and its start time."""

    def __init__(self, folder: RunFolder, host: str, pid: int, proc: Path = PROC) -> None:
        """Start with the job's first process, which must exist."""
        self._folder = folder
        self._host = host
        self._proc = proc
        ticks = started_ticks(pid, proc)
        self._alive: dict[int, int] = {} if ticks is None else {pid: ticks}
        self._seen: set[str] = set()

    def has_run_directory(self) -> bool:
        """Return whether the run directory still exists."""
        return os.path.isdir(self._folder.root)

    def is_running(self) -> bool:
        """Return whether any known process is alive. Cheap: reads one small file per process."""
        self._alive = {
            pid: ticks
            for pid, ticks in self._alive.items()
            if started_ticks(pid, self._proc) == ticks
        }
        return bool(self._alive)

    def look_for_more(self) -> None:
        """Add the processes that have been recorded since."""
        for process in self._folder.processes_of(self._host):
            if process.name not in self._seen and os.path.exists(process.manifest):
                self._seen.add(process.name)
                self._meet(process.manifest)

    def _meet(self, manifest: Path) -> None:
        try:
            document = json.loads(content_of(manifest))
            pid, ticks = document["pid"], document["pid_started_ticks"]
        except (OSError, ValueError, LookupError, TypeError):
            return
        if isinstance(pid, int) and isinstance(ticks, int):
            self._alive[pid] = ticks


# Bits of nvmlClocksEventReasons, nvml.h. Idling (bit 0) does not throttle any clock.
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
# The function's names in older and newer drivers.
_CLOCK_REASONS = (
    "nvmlDeviceGetCurrentClocksThrottleReasons",
    "nvmlDeviceGetCurrentClocksEventReasons",
)
_TEMPERATURE = ("nvmlDeviceGetTemperature", "nvmlDeviceGetTemperatureV")
_MHZ = 1_000_000
# NVML counts PCIe traffic in KB per second.
_KB = 1000


class NvmlDevice:
    """One accelerator. Any: nvidia-ml-py has no types."""

    def __init__(self, library: Any, index: int) -> None:
        """Query everything that does not change, once."""
        self._library = library
        self._index = index
        self._handle = library.nvmlDeviceGetHandleByIndex(index)
        self._name = _text(self._ask("nvmlDeviceGetName"))

    def sample(self) -> dict[str, Any]:
        """Return the current state: one device of a line of machine/<host>.jsonl."""
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
            # NVMLError: this device, driver or container does not provide it.
            return None


def find_accelerators(load: Callable[[], Any] | None = None) -> list[NvmlDevice]:
    """Return this machine's accelerators; none if NVML or its Python module is missing."""
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
        # Lost, or not accessible from this container.
        return None


def _scaled(value: Any, factor: float) -> float | int | None:
    return None if value is None else value * factor


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value or "")
