"""Message classes for the TensorFlow protos that tfprobe reads, in a private descriptor pool.

TensorFlow registers messages with the same names in protobuf's default pool; a private pool lets
both exist in one process.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from tfprobe.errors import UnreadableInput


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
    # Not importlib.resources, which imports zipfile and tempfile: 10 % of a short command's time.
    files.ParseFromString(Path(__file__).with_name("schema.binpb").read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)  # protoc writes imported files first
    return pool


def parse(content: bytes, full_name: str) -> Any:
    """Parse `content` as a message of this type, such as "tfprobe.graph.GraphDef".

    Raises UnreadableInput if it is not one. Any, because the classes are made at run time.
    """
    message = message_class(full_name)()
    try:
        message.ParseFromString(content)
    except Exception as exc:  # protobuf's DecodeError has no base class common to all versions
        raise UnreadableInput(f"not a valid {full_name.rpartition('.')[2]} ({exc})") from exc
    return message


def parse_either(content: bytes, full_name: str) -> Any:
    """Parse `content`, in text or binary form, as a message of this type.

    Raises UnreadableInput if it is not one.
    """
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        return parse(content, full_name)
    if "\0" in text:
        return parse(content, full_name)
    # Imported here: the import takes longer than reading most files.
    from google.protobuf import text_format

    message = message_class(full_name)()
    try:
        text_format.Parse(text, message, allow_unknown_field=True)
    except text_format.ParseError:
        return parse(content, full_name)
    return message
