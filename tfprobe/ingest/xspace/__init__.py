"""Decode XSpace bytes into rows: ops and spans of the host, kernels and copies of GPUs."""

from tfprobe.ingest.trace import Trace
from tfprobe.ingest.xspace.names import is_derived, op_of
from tfprobe.ingest.xspace.reader import Reader, read

__all__ = ["Reader", "Trace", "is_derived", "op_of", "read"]
