"""Decode XSpace bytes into rows: ops and spans of the host, kernels and copies of GPUs."""

from tfprobe.formats.xspace.devices import kernel_facts
from tfprobe.formats.xspace.events import holds_planes
from tfprobe.formats.xspace.plane import HOST, is_background, is_stream, op_of, place_of
from tfprobe.formats.xspace.programs import ran_nodes
from tfprobe.formats.xspace.ran_programs import ran_programs
from tfprobe.formats.xspace.reader import XSpaceReader, read
from tfprobe.formats.xspace.spans import driver_call_kind, kind_of, span_facts

__all__ = [
    "HOST",
    "XSpaceReader",
    "driver_call_kind",
    "holds_planes",
    "is_background",
    "is_stream",
    "kernel_facts",
    "kind_of",
    "op_of",
    "place_of",
    "ran_nodes",
    "ran_programs",
    "read",
    "span_facts",
]
