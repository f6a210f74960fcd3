"""Decode traces of PyTorch's profiler (Kineto) into rows and spans."""

from tfprobe.formats.kineto.reader import is_kineto, read, read_capture

__all__ = ["is_kineto", "read", "read_capture"]
