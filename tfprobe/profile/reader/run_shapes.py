"""Read from RunMetadata what shapes outputs had in a run, and put them where a graph has none.

By the rules of TensorFlow's tfprof_logger, which takes outputs by their place, and only those of
nodes with as many in the graph. What recorded runs tell, in other ways, too, `shapes` reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from tfprobe.formats.messages import parse
from tfprobe.profile.graph import Graph, Node, Shape

Shapes = Mapping[str, tuple[Shape, ...]]


def run_shapes(content: bytes) -> Shapes:
    """Return the shapes of the outputs of each node that ran, () for a scalar.

    Raises UnreadableInput when the bytes are no RunMetadata.
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
    """Return the graph with unknown shapes of outputs taken from runs, the first that fits.

    A node that has another number of outputs in a run, as some of control flow do, stays as it is.
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
    """Return the shape seen in a run, where it can be the one that is known in part."""
    if known and min(known) >= 0:
        return known
    if not known:
        return seen or (1,)
    fits = len(known) == len(seen) and all(
        one in (-1, other) for one, other in zip(known, seen, strict=True)
    )
    return seen if fits else known
