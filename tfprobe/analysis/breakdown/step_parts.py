"""Name the parts of a step's cycle, where they belong, and which goes first where two overlap."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class Part(Enum):
    """What a moment of a step's cycle was spent on. The value is its name in documents."""

    # Before the accelerator: the step waits for tf.data or a queue; arrays are converted and
    # handed over; Python makes the next batch; bytes go to the device.
    INPUT_WAIT = "input_wait"
    FEED = "feed"
    HOST_PREPROCESS = "host_preprocess"
    HOST_TO_DEVICE = "host_to_device"
    # On it: kernels by their precision; copies within and between devices; collectives; the host
    # puts kernels on streams; and what the host itself computes, for a CPU job nearly all.
    DEVICE_COMPUTE_16BIT = "device_compute_16bit"
    DEVICE_COMPUTE_32BIT = "device_compute_32bit"
    DEVICE_COMPUTE_OTHER = "device_compute_other"
    DEVICE_TO_DEVICE = "device_to_device"
    COLLECTIVES = "collectives"
    KERNEL_LAUNCH = "kernel_launch"
    HOST_COMPUTE = "host_compute"
    # After it.
    DEVICE_TO_HOST = "device_to_host"
    FETCH = "fetch"
    CALLBACKS = "callbacks"
    SUMMARIES = "summaries"
    CHECKPOINTS = "checkpoints"
    # None of the three: a function is traced or compiled; the host waits for a device or another
    # process; the trace of this very step is begun and gathered; nothing of the above.
    COMPILE = "compile"
    SYNC_WAIT = "sync_wait"
    RECORDING = "recording"
    IDLE = "idle"

    # Sums by part are everywhere, and an Enum's own hash takes longer than the sum.
    __hash__ = object.__hash__


# What people call them.
LABELS: Mapping[Part, str] = {
    Part.INPUT_WAIT: "input wait",
    Part.FEED: "feed",
    Part.HOST_PREPROCESS: "preprocessing",
    Part.HOST_TO_DEVICE: "host to device",
    Part.DEVICE_COMPUTE_16BIT: "device compute, 16 bit",
    Part.DEVICE_COMPUTE_32BIT: "device compute, 32 bit",
    Part.DEVICE_COMPUTE_OTHER: "device compute",
    Part.DEVICE_TO_DEVICE: "device to device",
    Part.COLLECTIVES: "collectives",
    Part.KERNEL_LAUNCH: "kernel launch",
    Part.HOST_COMPUTE: "host compute",
    Part.DEVICE_TO_HOST: "device to host",
    Part.FETCH: "fetch",
    Part.CALLBACKS: "callbacks",
    Part.SUMMARIES: "summaries",
    Part.CHECKPOINTS: "checkpoints",
    Part.COMPILE: "compile",
    Part.SYNC_WAIT: "sync wait",
    Part.RECORDING: "recording",
    Part.IDLE: "idle",
}

GROUPS: Mapping[str, tuple[Part, ...]] = {
    "before": (Part.INPUT_WAIT, Part.FEED, Part.HOST_PREPROCESS, Part.HOST_TO_DEVICE),
    "on": (
        Part.DEVICE_COMPUTE_16BIT,
        Part.DEVICE_COMPUTE_32BIT,
        Part.DEVICE_COMPUTE_OTHER,
        Part.DEVICE_TO_DEVICE,
        Part.COLLECTIVES,
        Part.KERNEL_LAUNCH,
        Part.HOST_COMPUTE,
    ),
    "after": (
        Part.DEVICE_TO_HOST,
        Part.FETCH,
        Part.CALLBACKS,
        Part.SUMMARIES,
        Part.CHECKPOINTS,
    ),
    "other": (Part.COMPILE, Part.SYNC_WAIT, Part.RECORDING, Part.IDLE),
}

DEVICE_COMPUTE: tuple[Part, ...] = (
    Part.DEVICE_COMPUTE_16BIT,
    Part.DEVICE_COMPUTE_32BIT,
    Part.DEVICE_COMPUTE_OTHER,
)
# What is charged to a moment at which a device does something.
ON_DEVICE: tuple[Part, ...] = (
    *DEVICE_COMPUTE,
    Part.COLLECTIVES,
    Part.DEVICE_TO_DEVICE,
    Part.DEVICE_TO_HOST,
    Part.HOST_TO_DEVICE,
)
# With an accelerator the host's own work matters only while no device works; waiting for input
# outranks it, for what runs meanwhile is mostly scheduling.
WITH_ACCELERATOR: tuple[Part, ...] = (
    *ON_DEVICE,
    Part.COMPILE,
    Part.INPUT_WAIT,
    Part.HOST_PREPROCESS,
    Part.CHECKPOINTS,
    Part.SUMMARIES,
    Part.HOST_COMPUTE,
    Part.SYNC_WAIT,
    Part.KERNEL_LAUNCH,
    Part.FEED,
    Part.FETCH,
)
# Without one, the host is the accelerator: where it computes, the step is not waiting.
WITHOUT_ACCELERATOR: tuple[Part, ...] = (
    Part.COMPILE,
    Part.CHECKPOINTS,
    Part.SUMMARIES,
    Part.HOST_COMPUTE,
    Part.HOST_PREPROCESS,
    Part.INPUT_WAIT,
    Part.COLLECTIVES,
    Part.SYNC_WAIT,
    Part.FEED,
    Part.FETCH,
)
