"""Tell by the names of planes, lines and events what they are."""

from __future__ import annotations

import functools
import re
from typing import Any

from tfprobe.profile.executions import Place

HOST = "/host:CPU"
# Calls of the driver, until they are joined to the lines of HOST when a trace is exported.
DRIVER = "/host:CUPTI"
# What the name of a GetNext of tf.data begins with; the rest is its path.
ITERATOR = "Iterator::"
_GPU_PLANE = re.compile(r"/device:GPU:\d+")
# Lines of a GPU plane that repeat the streams, derived when the trace was exported.
_DERIVED_LINES = (
    "Framework Name Scope",
    "Framework Ops",
    "Launch Stats",
    "Source code",
    "Steps",
    "TensorFlow Name Scope",
    "TensorFlow Ops",
    "XLA Modules",
    "XLA Ops",
)
# Lines of a GPU plane that are no stream: what tracing cost, and counters.
_LINES_OF_THE_TRACER = ("CUPTI overhead", "_counters_")
_TF_DATA_THREADS = ("tf_data_private_threadpool", "tf_data_iterator_resource")
# Names as TensorFlow's own parser has them (tsl/profiler/utils/tf_op_utils.cc).
_OP = re.compile(r"(?P<name>[A-Za-z0-9._][\w.\\/>\-]*):(?P<type>[A-Z_]\w*)\Z")
# "MemcpyH2D" in an XSpace, "MEMCPYHtoD" in older tracers; without a direction it is the device's.
_COPY = re.compile(r"\Amem(?:cpy|set)(?:(?P<from>[HDP])(?:to|2)(?P<to>[HDP]))?", re.IGNORECASE)
_ENDS = re.compile(r"kind_src:(?P<from>\w+) kind_dst:(?P<to>\w+)")
_HOST_MEMORY = ("pageable", "pinned")
_COPY_SIZE = re.compile(r"(?:num_bytes|size):(\d+)")


def is_gpu(plane: str) -> bool:
    """Say whether a plane holds what a GPU did."""
    return _GPU_PLANE.match(plane) is not None


def line_name(line: Any) -> str:
    """Return the name of a line. Any: an XLine, whose class is made at run time."""
    return str(line.display_name or line.name)


def is_derived(line: str) -> bool:
    """Say whether a line of a GPU repeats what its streams hold."""
    return line.startswith(_DERIVED_LINES)


def is_stream(line: str) -> bool:
    """Say whether a line of a GPU is a stream: neither derived nor of the tracer itself."""
    return not is_derived(line) and not line.startswith(_LINES_OF_THE_TRACER)


def is_background(thread: str) -> bool:
    """Say whether a thread prepares later steps."""
    return thread.startswith(_TF_DATA_THREADS)


@functools.lru_cache(maxsize=2**16)
def op_of(event: str) -> tuple[str, str] | None:
    """Return node and op of an event's name such as "scope/name:Type"; None where it is no op."""
    op = _OP.match(event)
    return None if op is None else (op["name"], op["type"])


def place_of(kernel: str, details: str = "") -> Place:
    """Return the direction of a copy, by its name or what is said of it; else ACCELERATOR."""
    copy = _COPY.match(kernel)
    if copy is None:
        return Place.ACCELERATOR
    if copy["from"]:
        return _direction(f"{copy['from']}{copy['to']}".upper())
    ends = _ENDS.search(details)
    if ends is None:
        return Place.DEVICE_TO_DEVICE
    return _direction("".join("H" if ends[at] in _HOST_MEMORY else "D" for at in ("from", "to")))


def copy_bytes(details: str) -> int:
    """Return the size of a copy or a memset by what is said of it, 0 where that is not said."""
    size = _COPY_SIZE.search(details)
    return int(size[1]) if size else 0


def _direction(ends: str) -> Place:
    places = {"HD": Place.HOST_TO_DEVICE, "DH": Place.DEVICE_TO_HOST}
    return places.get(ends, Place.DEVICE_TO_DEVICE)
