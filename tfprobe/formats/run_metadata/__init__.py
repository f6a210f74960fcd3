"""Decode RunMetadata bytes into rows of ops, copies and allocations."""

from tfprobe.formats.run_metadata.copies import place_of
from tfprobe.formats.run_metadata.nodes import NodeReader
from tfprobe.formats.run_metadata.reader import RunMetadataReader, read, rows
from tfprobe.formats.run_metadata.split import SplitCaptures, take_apart

__all__ = [
    "NodeReader",
    "RunMetadataReader",
    "SplitCaptures",
    "place_of",
    "read",
    "rows",
    "take_apart",
]
