"""Decode RunMetadata bytes into rows of ops, copies and allocations."""

from tfprobe.ingest.run_metadata.devices import place_of
from tfprobe.ingest.run_metadata.reader import Reader, read, rows

__all__ = ["Reader", "place_of", "read", "rows"]
