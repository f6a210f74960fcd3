"""NVML is asked device by device; what it does not tell is None."""

from __future__ import annotations

from types import SimpleNamespace

from tfprobe.attach.meter.sampling import find_accelerators


def _library(**functions: object) -> SimpleNamespace:
    base: dict[str, object] = {
        "nvmlInit": lambda: None,
        "nvmlDeviceGetCount": lambda: 2,
        "nvmlDeviceGetHandleByIndex": lambda index: index,
        "nvmlDeviceGetName": lambda handle: b"GPU %d" % handle,
    }
    return SimpleNamespace(**{**base, **functions})


def _refuse(*_: object) -> None:
    raise RuntimeError("not supported")


def test_what_a_device_does_not_tell_is_none():
    """An older driver, a partitioned device, a container without the right."""
    first, second = find_accelerators(lambda: _library(nvmlDeviceGetPowerUsage=_refuse))

    sample = first.sample()

    assert (sample["index"], sample["name"], second.sample()["name"]) == (0, "GPU 0", "GPU 1")
    told = {name: value for name, value in sample.items() if value not in (None, [])}
    assert set(told) == {"index", "name"}


def test_newer_names_are_asked_where_the_older_are_gone():
    """Drivers to come drop functions that older ones have alone."""
    library = _library(
        nvmlDeviceGetTemperature=_refuse,
        nvmlDeviceGetTemperatureV=lambda *_: 60,
        nvmlDeviceGetCurrentClocksEventReasons=lambda *_: 0x29,
    )

    sample = find_accelerators(lambda: library)[0].sample()

    assert sample["temperature_celsius"] == 60
    assert sample["throttle_reasons"] == ["hardware slowdown", "software thermal slowdown"]


def test_a_device_that_cannot_be_had_is_left_out():
    """The others are sampled."""

    def handle(index: int) -> int:
        return _refuse() or index if index == 0 else index

    devices = find_accelerators(lambda: _library(nvmlDeviceGetHandleByIndex=handle))

    assert [device.sample()["index"] for device in devices] == [1]


def test_without_a_driver_there_is_none():
    """NVML loads, and then says that it has no driver."""
    assert find_accelerators(lambda: _library(nvmlInit=_refuse)) == []
    assert find_accelerators(_refuse) == []
