"""Message classes for the TensorFlow protos tfprobe reads, in a pool of their own.

TensorFlow registers messages of the same names in protobuf's default pool; a private pool lets
both live in one process.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory


@cache
def message_class(full_name: str) -> Any:
    """Return the class of a message such as "tfprobe.xplane.XSpace".

    Any, because the class is made at run time from the descriptor set.
    """
    descriptor = _pool().FindMessageTypeByName(full_name)
    return message_factory.GetMessageClass(descriptor)


@cache
def enum_names(full_name: str) -> dict[int, str]:
    """Return the names of an enum such as "tfprobe.graph.DataType", by number."""
    values = _pool().FindEnumTypeByName(full_name).values
    return {value.number: value.name for value in values}


@cache
def _pool() -> descriptor_pool.DescriptorPool:
    files = descriptor_pb2.FileDescriptorSet()
    # Not importlib.resources, which imports zipfile and tempfile: a tenth of a short command.
    files.ParseFromString(Path(__file__).with_name("schema.binpb").read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)  # protoc writes imported files first
    return pool
