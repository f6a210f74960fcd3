"""Decode traces of PyTorch's profiler (Kineto) into rows, spans, allocations and nodes."""

from tfprobe.formats.kineto.events import is_kineto
from tfprobe.formats.kineto.reader import KinetoReader, read
from tfprobe.formats.kineto.scopes import Module, read_modules

__all__ = ["KinetoReader", "Module", "is_kineto", "read", "read_modules"]
