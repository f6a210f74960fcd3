"""Hold one step as TensorFlow's StepStats tells it: by device, each execution with its outputs."""

from __future__ import annotations

from dataclasses import dataclass

from tfprobe.errors import Missing

NOT_TOLD = Missing("the recording of this step does not tell")


@dataclass(frozen=True, slots=True)
class TensorOutput:
    """A tensor that an execution made; `description` is TensorFlow's own text about it.

    `dtype` is TensorFlow's name, such as "DT_FLOAT".
    """

    slot: int
    dtype: str
    shape: tuple[int, ...] | Missing
    allocator: str
    requested_bytes: int
    description: str


@dataclass(frozen=True, slots=True)
class NodeStats:
    """One execution. `label` is text that names the op and its inputs, or the kernel.

    `duration_us` is until all was done, which is longer than the op itself. `total_bytes` is what
    was requested of all allocators. `outputs` is empty as well where the recording tells of none.
    """

    name: str
    label: str
    start_us: int
    duration_us: int
    outputs: tuple[TensorOutput, ...] = ()
    total_bytes: int | Missing = NOT_TOLD

    @property
    def end_us(self) -> int:
        return self.start_us + self.duration_us


@dataclass(frozen=True, slots=True)
class DeviceStats:
    """What a device did, or a stream of it, in the order in which it was told."""

    device: str
    nodes: tuple[NodeStats, ...]
