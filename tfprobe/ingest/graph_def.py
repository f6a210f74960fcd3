"""Decode GraphDef bytes into what the rows of a step do not say by themselves."""

from __future__ import annotations

from tfprobe.errors import UnreadableInput
from tfprobe.ingest.schema import message_class


def op_types(content: bytes) -> dict[str, str]:
    """Return the op of every node, those of functions by their name inside the function.

    Raises UnreadableInput when the bytes are no GraphDef.
    """
    graph = message_class("tfprobe.graph.GraphDef")()
    try:
        graph.ParseFromString(content)
    except Exception as exc:  # protobuf's DecodeError has no common base over its versions
        raise UnreadableInput(f"not a GraphDef ({exc})") from exc
    types: dict[str, str] = {}
    for function in graph.library.function:
        types.update((node.name, node.op) for node in function.node_def)
    types.update((node.name, node.op) for node in graph.node)
    return types
