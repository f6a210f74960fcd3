"""Read the actual shapes of outputs and the optimizer's nodes from captures.

Reads whole captures a second time, independently of the decoders of times, so use it for few.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from math import prod
from typing import Any

from tfprobe.formats.function_calls import FunctionCalls
from tfprobe.formats.graph_profile import nodes_of
from tfprobe.formats.schema import parse
from tfprobe.profile.graph import Graph, Node, Output, Shape

_LIST = re.compile(r"\[(\d+(?:,\d+)*)?\]\Z")


def step_shapes(content: bytes, name_of: Callable[[str], str]) -> Iterator[tuple[Output, Shape]]:
    """Yield the shape of each output that a RunMetadata describes, by its name in the graph.

    Raises UnreadableInput if the bytes are not a RunMetadata.
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
    """Yield the shapes of outputs in an XSpace, by their names in the graph.

    An allocation names its op but not the output: it is assigned to the outputs whose shape in the
    graph it fits. The elements of the step's dataset come first.

    Raises UnreadableInput if the bytes are not an XSpace.
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


def calls(content: bytes) -> FunctionCalls:
    """Return what a GraphDef passes to its functions.

    Raises UnreadableInput if the bytes are not a GraphDef.
    """
    return FunctionCalls(parse(content, "tfprobe.graph.GraphDef"))


def agreed(found: Iterable[tuple[Output, Shape]]) -> dict[Output, Shape]:
    """Return the shapes of the outputs that had the same shape every time."""
    by_output: dict[Output, set[Shape]] = {}
    for output, shape in found:
        by_output.setdefault(output, set()).add(shape)
    return {output: next(iter(shapes)) for output, shapes in by_output.items() if len(shapes) == 1}


def of_either(one: Node, other: Node) -> dict[int, Shape]:
    """Return the output shapes of two nodes of one name, unknown where they differ."""
    return {
        number: _joined(shape, other.output_shapes.get(number, ()))
        for number, shape in one.output_shapes.items()
    }


def optimized_nodes(
    content: bytes, name_of: Callable[[str], str], nodes: Mapping[str, Node]
) -> dict[tuple[str, str], Node]:
    """Return the nodes that a RunMetadata's graphs define and `nodes` lacks, by name and op.

    Names are as in `nodes`. Two nodes with equal name and op but different inputs are both left
    out.

    Raises UnreadableInput if the bytes are not a RunMetadata.
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
    """Yield the op and the shape of each allocation of an output."""
    events = {at for at, each in plane.event_metadata.items() if each.name == "MemoryAllocation"}
    if not events:
        return
    names = {at: each.name for at, each in plane.stat_metadata.items()}
    for line in plane.lines:
        for event in line.events:
            if event.metadata_id not in events:
                continue
            stats = {names.get(stat.metadata_id, ""): stat for stat in event.stats}
            if _text(stats.get("region_type"), names) != "output":
                continue
            shape = _LIST.match(_text(stats.get("shape"), names))
            op = _text(stats.get("tf_op"), names)
            if op and shape:
                yield op, tuple(map(int, (shape[1] or "1").split(",")))


def _text(stat: Any, names: Mapping[int, str]) -> str:
    if stat is None:
        return ""
    text: str = stat.str_value or names.get(stat.ref_value, "")
    return text


def _fits(shape: Shape, static: Shape) -> bool:
    """Return whether this shape may match a graph's shape, which has a rank."""
    known = zip(shape, static, strict=False)
    return len(shape) == len(static) and all(there in (-1, here) for here, there in known)


Shapes = Mapping[str, tuple[Shape, ...]]


def run_shapes(content: bytes) -> Shapes:
    """Return the shapes of the outputs of each node that ran, () for a scalar.

    Raises UnreadableInput if the bytes are not a RunMetadata.
    """
    metadata = parse(content, "tfprobe.step_stats.RunMetadata")
    found: dict[str, tuple[Shape, ...]] = {}
    for device in metadata.step_stats.dev_stats:
        for stats in device.node_stats:
            if stats.output and stats.node_name not in found:
                found[stats.node_name] = tuple(
                    tuple(dim.size for dim in each.tensor_description.shape.dim)
                    for each in stats.output
                )
    return found


def filled(graph: Graph, runs: Iterable[Shapes]) -> Graph:
    """Return the graph with unknown output shapes taken from runs, the first that fits.

    A node with another number of outputs in a run, as some control flow ops have, is not changed.
    """
    runs = [shapes for shapes in runs if shapes]
    if not runs:
        return graph
    return replace(graph, nodes=tuple(_filled(node, runs) for node in graph.nodes))


def _filled(node: Node, runs: Iterable[Shapes]) -> Node:
    known = dict(node.output_shapes)
    for shapes in runs:
        seen = shapes.get(node.name, ())
        if len(seen) == len(known):
            known = {index: _merged(known[index], shape) for index, shape in enumerate(seen)}
    return node if known == node.output_shapes else replace(node, output_shapes=known)


def _merged(known: Shape, seen: Shape) -> Shape:
    """Return the shape seen in a run if it is compatible with the partly known one."""
    if known and min(known) >= 0:
        return known
    if not known:
        return seen or (1,)
    fits = len(known) == len(seen) and all(
        one in (-1, other) for one, other in zip(known, seen, strict=True)
    )
    return seen if fits else known


_GET_NEXT = "IteratorGetNextOp::DoCompute"
_ROOT = "Iterator::Root"
# Batching is the last transformation of an element: its components share their first size.
_BATCHED = re.compile(
    r"Iterator::Root(::(Prefetch|MaxIntraOpParallelism|PrivateThreadPool|Options))*"
    r"::(BatchV2|ParallelBatch)\Z"
)
_SHAPE = re.compile(r"\[((?:\?|\d+)(?:,(?:\?|\d+))*)?\]\Z")
_TYPE_BYTES: Mapping[str, int] = {
    "bfloat16": 2,
    "bool": 1,
    "complex128": 16,
    "complex64": 8,
    "double": 8,
    "float": 4,
    "half": 2,
    "int16": 2,
    "int32": 4,
    "int64": 8,
    "int8": 1,
    "uint16": 2,
    "uint32": 4,
    "uint64": 8,
    "uint8": 1,
}


def element_shapes(space: Any, nodes: Iterable[Node]) -> dict[tuple[str, int], Shape]:
    """Return the shapes of the outputs of the graph's only iterator op, if they are recorded.

    Works only if one size is unknown, the first of all components, and the bytes of the one element
    taken determine it. Any: message classes are made at run time.
    """
    iterators = [node for node in nodes if node.op == "IteratorGetNext"]
    recorded = _recorded_shapes(space)
    if len(iterators) != 1 or recorded is None:
        return {}
    static, types, size_bytes, is_batched = recorded
    outputs = iterators[0].output_shapes
    if static != [outputs[at] for at in sorted(outputs)]:
        return {}
    found = _solved(static, types, size_bytes, is_batched=is_batched)
    return {
        (iterators[0].name, at): shape for at, shape in zip(sorted(outputs), found, strict=False)
    }


def _recorded_shapes(space: Any) -> tuple[list[Shape], list[str], int, bool] | None:
    """Return shapes and types of the only dataset, its element's bytes, and how it is made."""
    roots, sizes, is_batched = set(), set(), False
    for plane in space.planes:
        names = {at: each.name for at, each in plane.event_metadata.items()}
        is_batched = is_batched or any(map(_BATCHED.match, names.values()))
        wanted = {at for at, name in names.items() if name in (_GET_NEXT, _ROOT)}
        stats = {at: each.name for at, each in plane.stat_metadata.items()} if wanted else {}
        for line in plane.lines if wanted else ():
            for event in line.events:
                if event.metadata_id not in wanted:
                    continue
                facts = {stats.get(stat.metadata_id, ""): stat for stat in event.stats}
                if "element_size" in facts:
                    stat = facts["element_size"]
                    sizes.add(stat.int64_value or stat.uint64_value)
                elif "shapes" in facts and "types" in facts:
                    roots.add(
                        tuple(
                            _dataset_shapes_text(facts[key], stats) for key in ("shapes", "types")
                        )
                    )
    if len(roots) != 1 or len(sizes) != 1:
        return None
    shapes, types = roots.pop()
    parsed = [_SHAPE.match(text) for text in shapes.split(" ")]
    static = [_shape(each[1]) for each in parsed if each is not None]
    if len(static) != len(parsed) or len(static) != len(types.split(" ")):
        return None
    return static, types.split(" "), sizes.pop(), is_batched


def _solved(
    static: list[Shape], types: list[str], size_bytes: int, *, is_batched: bool
) -> list[Shape]:
    is_open = [-1 in shape for shape in static]
    if any(shape.count(-1) > 1 or -1 in shape[1:] for shape in static) or not any(is_open):
        return []
    if is_open.count(True) > 1 and not is_batched:
        return []
    if any(each not in _TYPE_BYTES for each in types):
        return []
    known_bytes = row_bytes = 0
    for shape, each, open_ in zip(static, types, is_open, strict=True):
        amount = _TYPE_BYTES[each] * prod(size for size in shape if size >= 0)
        known_bytes += 0 if open_ else amount
        row_bytes += amount if open_ else 0
    rows, rest = divmod(size_bytes - known_bytes, row_bytes or 1)
    if rest or rows < 1 or not row_bytes:
        return []
    return [tuple(rows if size < 0 else size for size in shape) for shape in static]


def _shape(text: str | None) -> Shape:
    return tuple(-1 if size == "?" else int(size) for size in (text or "1").split(","))


def _dataset_shapes_text(stat: Any, names: Mapping[int, str]) -> str:
    text: str = stat.str_value or names.get(stat.ref_value, "")
    return text
