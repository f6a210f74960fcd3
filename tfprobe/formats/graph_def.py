"""Decode GraphDef bytes into what the rows of a step do not say by themselves."""

from __future__ import annotations

from tfprobe.formats.messages import parse


def op_types(content: bytes) -> dict[str, str]:
    """Return the op of every node, those of functions by their name inside the function.

    Raises UnreadableInput when the bytes are no GraphDef.
    """
    graph = parse(content, "tfprobe.graph.GraphDef")
    types: dict[str, str] = {}
    for function in graph.library.function:
        types.update((node.name, node.op) for node in function.node_def)
    types.update((node.name, node.op) for node in graph.node)
    return types
