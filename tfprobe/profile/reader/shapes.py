"""Read from captures which shapes outputs really had, and which nodes the optimizer made.

Looks at whole captures a second time, beside the decoders of times: only few are given to it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from tfprobe.formats.calls import Calls
from tfprobe.formats.graph_profile import nodes_of
from tfprobe.formats.messages import parse
from tfprobe.profile.graph import Node, Shape
from tfprobe.profile.reader.dataset_shapes import element_shapes
from tfprobe.profile.sampled import Output

_LIST = re.compile(r"\[(\d+(?:,\d+)*)?\]\Z")


def step_shapes(content: bytes, name_of: Callable[[str], str]) -> Iterator[tuple[Output, Shape]]:
    """Give the shape of each output that a RunMetadata describes, by the name in the graph.

    Raises UnreadableInput when the bytes are no RunMetadata.
    """
    message = parse(content, "tfprobe.step_stats.RunMetadata")
    for device in message.step_stats.dev_stats:
        for node in device.node_stats:
            for output in node.output:
                described = output.tensor_description
                if described.HasField("shape") and not described.shape.unknown_rank:
                    name = name_of(node.node_name.partition(":")[0])
                    shape = tuple(dim.size for dim in described.shape.dim) or (1,)
                    yield (name, output.slot), shape


def trace_shapes(
    content: bytes, name_of: Callable[[str], str], nodes: Mapping[str, Node]
) -> Iterator[tuple[Output, Shape]]:
    """Give the shapes of outputs that an XSpace tells, by the name in the graph.

    An allocation says for which op it was made and not for which output: it is that of the outputs
    whose shape in the graph it fits. The elements of the step's dataset come first.

    Raises UnreadableInput when the bytes are no XSpace.
    """
    space = parse(content, "tfprobe.xplane.XSpace")
    yield from element_shapes(space, nodes.values()).items()
    for plane in space.planes:
        for op, shape in _allocations(plane):
            name = name_of(op)
            node = nodes.get(name)
            statics = node.output_shapes if node else {}
            fitting = [number for number, static in statics.items() if _fits(shape, static)]
            if not fitting and [len(static) for static in statics.values()] == [len(shape)]:
                # Another trace of the function ran than the one whose graph is known.
                fitting = list(statics)
            for number in fitting:
                yield (name, number), shape


def calls(content: bytes) -> Calls:
    """Return what a GraphDef passes to its functions.

    Raises UnreadableInput when the bytes are no GraphDef.
    """
    return Calls(parse(content, "tfprobe.graph.GraphDef"))


def agreed(found: Iterable[tuple[Output, Shape]]) -> dict[Output, Shape]:
    """Return the shapes of those outputs that always had the same."""
    by_output: dict[Output, set[Shape]] = {}
    for output, shape in found:
        by_output.setdefault(output, set()).add(shape)
    return {output: next(iter(shapes)) for output, shapes in by_output.items() if len(shapes) == 1}


def of_either(one: Node, other: Node) -> dict[int, Shape]:
    """Return the output shapes of two nodes of one name, open where they differ."""
    return {
        number: _joined(shape, other.output_shapes.get(number, ()))
        for number, shape in one.output_shapes.items()
    }


def are_alike(one: Node, other: Node) -> bool:
    """Say whether two nodes of one name compute the same, shapes aside."""
    return (one.op, one.inputs, one.sources, one.attributes) == (
        other.op,
        other.inputs,
        other.sources,
        other.attributes,
    )


def optimized_nodes(
    content: bytes, name_of: Callable[[str], str], nodes: Mapping[str, Node]
) -> dict[tuple[str, str], Node]:
    """Return the nodes that a RunMetadata's graphs define and `nodes` do not, by name and op.

    Names are as in `nodes`. Two with one name and op and different inputs are both left out.

    Raises UnreadableInput when the bytes are no RunMetadata.
    """
    found: dict[tuple[str, str], Node] = {}
    unclear: set[tuple[str, str]] = set()

    def is_new(defined: Any) -> bool:
        known = nodes.get(name_of(defined.name))
        if known is None or known.op != defined.op:
            return True
        return not (known.inputs or known.output_shapes)

    for node in _graphs_nodes(parse(content, "tfprobe.step_stats.RunMetadata"), is_new):
        name = name_of(node.name)
        inputs = {at: name_of(each) for at, each in node.inputs.items()}
        node = replace(node, name=name, inputs=inputs)
        other = found.setdefault((name, node.op), node)
        if (other.inputs, other.attributes) != (node.inputs, node.attributes):
            unclear.add((name, node.op))
    return {key: node for key, node in found.items() if key not in unclear}


def _joined(one: Shape, other: Shape) -> Shape:
    if len(one) != len(other):
        return ()
    return tuple(a if a == b else -1 for a, b in zip(one, other, strict=True))


def _graphs_nodes(metadata: Any, wanted: Callable[[Any], bool]) -> Iterator[Node]:
    graphs = list(metadata.partition_graphs)
    for function in metadata.function_graphs:
        graphs += [*function.partition_graphs, function.post_optimization_graph]
    for graph in graphs:
        for body in (graph.node, *(function.node_def for function in graph.library.function)):
            yield from nodes_of(body, wanted)


def _allocations(plane: Any) -> Iterator[tuple[str, Shape]]:
    """Give the op and the shape of each allocation of an output."""
    events = {at for at, each in plane.event_metadata.items() if each.name == "MemoryAllocation"}
    if not events:
        return
    names = {at: each.name for at, each in plane.stat_metadata.items()}
    for line in plane.lines:
        for event in line.events:
            if event.metadata_id not in events:
                continue
            told = {names.get(stat.metadata_id, ""): stat for stat in event.stats}
            if _text(told.get("region_type"), names) != "output":
                continue
            shape = _LIST.match(_text(told.get("shape"), names))
            op = _text(told.get("tf_op"), names)
            if op and shape:
                yield op, tuple(map(int, (shape[1] or "1").split(",")))


def _text(stat: Any, names: Mapping[int, str]) -> str:
    if stat is None:
        return ""
    text: str = stat.str_value or names.get(stat.ref_value, "")
    return text


def _fits(shape: Shape, static: Shape) -> bool:
    """Say whether a graph's shape may be this one; where it knows no rank, nothing is sure."""
    known = zip(shape, static, strict=False)
    return len(shape) == len(static) and all(there in (-1, here) for here, there in known)
