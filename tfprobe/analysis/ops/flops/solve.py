"""Find shapes that are unknown in a graph, from those that ran, by rules about ops.

Nothing is guessed: a size is passed from one tensor to another only if an op makes them equal.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from tfprobe.analysis.ops.flops.bound import (
    CARRIED,
    LINK,
    LINKED,
    LISTS,
    REDUCTIONS,
    RULES,
    SHAPE_INPUTS,
    BoundTensors,
)
from tfprobe.profile.graph import LoopVariable, Node, Output, Shape, TracedLoop

_LIST_TYPE = "DT_VARIANT"


def shapes_of(traced: TracedLoop) -> dict[Output, Shape]:
    """Return the shape of each output of traced steps, as complete as possible."""
    sure = (node for node in traced.graph.nodes if node.name not in traced.shared_names)
    return solved(sure, traced.shapes, traced.arguments, traced.loop_variables)


def solved(
    nodes: Iterable[Node],
    recorded: Mapping[Output, Shape],
    arguments: Mapping[str, Output] = MappingProxyType({}),
    loops: Sequence[LoopVariable] = (),
) -> dict[Output, Shape]:
    """Return the shape of each output, as complete as possible; recorded ones have precedence.

    `arguments` are outputs that functions read under another name, `loops` the loop variables. The
    handle of a list has the shape of its elements.
    """
    nodes = tuple(nodes)
    names = {node.name for node in nodes}
    passed = {name: given for name, given in arguments.items() if name not in names}
    nodes += tuple(
        Node(name, "Identity", inputs={0: producer}, sources={0: number})
        for name, (producer, number) in passed.items()
    )
    nodes += (*_shaped_like(nodes), *_linked_by_reduction(nodes))
    static = {
        (node.name, number): () if _is_list(node, number) else shape
        for node in nodes
        for number, shape in node.output_shapes.items()
    }
    wrong = _contradicted(static, recorded)
    if wrong:
        static |= {output: _without(shape, wrong) for output, shape in static.items()}
    static.update(recorded)
    if all(map(is_complete, static.values())) and not loops:
        return static
    while True:
        shapes = dict(static)
        _propagate(nodes + tuple(_carried(loops, names)), shapes)
        kept = [loop for loop in loops if _keeps_its_shape(loop, shapes)]
        if len(kept) == len(loops):
            return shapes
        loops = kept


def _is_list(node: Node, number: int) -> bool:
    if node.op in LISTS:
        return number == 0
    return number < len(node.dtypes) and node.dtypes[number] == _LIST_TYPE


def _carried(loops: Sequence[LoopVariable], names: set[str]) -> Iterator[Node]:
    """Yield nodes that stand for loop variables: arguments of the body, and final values."""
    for loop in loops:
        if loop.argument not in names:
            (first, at_first), (last, at_last) = loop.initial, loop.result
            inputs, sources = {0: first, 1: last}, {0: at_first, 1: at_last}
            yield Node(loop.argument, CARRIED, inputs=inputs, sources=sources)
            name, number = loop.output
            yield Node(name, CARRIED, inputs={0: loop.argument}, output_shapes={number: ()})


def _keeps_its_shape(variable: LoopVariable, shapes: Mapping[Output, Shape]) -> bool:
    """Return whether an iteration keeps the shape of a variable, as far as known.

    The first iteration has the initial shape; by induction so have all others.
    """
    return shapes.get((variable.argument, 0), ()) == shapes.get(variable.result, ())


def _contradicted(shapes: Mapping[Output, Shape], recorded: Mapping[Output, Shape]) -> set[int]:
    """Return the sizes in the graph that differ from those that ran, as in another trace.

    Not if only their order differs: the optimizer can change the layout of images.
    """
    wrong: set[int] = set()
    for output, ran in recorded.items():
        static = shapes.get(output, ())
        known = Counter(size for size in static if size >= 0)
        if len(static) != len(ran) or not known - Counter(ran):
            continue
        wrong.update(a for a, b in zip(static, ran, strict=True) if a not in (-1, b))
    return wrong


def _without(shape: Shape, sizes: set[int]) -> Shape:
    return tuple(-1 if size in sizes else size for size in shape)


def _shaped_like(nodes: tuple[Node, ...]) -> Iterator[Node]:
    """Yield a node for each one whose output takes its shape from another tensor."""
    by_name = {node.name: node for node in nodes}
    for node in nodes:
        shape_node = by_name.get(node.inputs.get(SHAPE_INPUTS.get(node.op, -1), ""))
        if shape_node is None or shape_node.op not in ("Shape", "ShapeN"):
            continue
        which = node.sources.get(SHAPE_INPUTS[node.op], 0)
        if which in shape_node.inputs:
            yield Node(
                node.name,
                "Identity",
                inputs={0: shape_node.inputs[which]},
                sources={0: shape_node.sources.get(which, 0)},
            )


def _linked_by_reduction(nodes: tuple[Node, ...]) -> Iterator[Node]:
    """Yield for each reduction a node that links the remaining unknown size of input and output.

    If each side has one unknown size, they are equal, as a reduced size is removed or 1. If more
    are unknown, or the rank is, they cannot be linked.
    """
    by_name = {node.name: node for node in nodes}
    for node in nodes:
        producer = by_name.get(node.inputs.get(0, ""))
        if node.op not in REDUCTIONS or producer is None:
            continue
        given = producer.output_shapes.get(node.sources.get(0, 0), ())
        made = node.output_shapes.get(0, ())
        keeps = bool(node.attributes.get("keep_dims"))
        if given.count(-1) == made.count(-1) == 1 and not (keeps and len(made) == 1):
            yield Node(
                node.name,
                LINKED,
                inputs={0: producer.name},
                sources={0: node.sources.get(0, 0)},
                attributes={LINK: (given.index(-1), made.index(-1))},
            )


def is_complete(shape: Shape) -> bool:
    """Return whether every size of a shape is known."""
    return bool(shape) and min(shape) >= 0


def inputs_of(node: Node) -> list[Output | None]:
    """Return which output of which node each input is, None if unknown."""
    count = max(node.inputs, default=-1) + 1
    return [
        (node.inputs[at], node.sources.get(at, 0)) if at in node.inputs else None
        for at in range(count)
    ]


def _propagate(nodes: tuple[Node, ...], shapes: dict[Output, Shape]) -> None:
    """Apply the rules until nothing changes: a known size stays as it is."""
    names = {node.name for node in nodes}
    readers: dict[str, list[int]] = {}
    for at, node in enumerate(nodes):
        for producer in node.inputs.values():
            readers.setdefault(producer, []).append(at)
    places: dict[str, list[int]] = {}
    for at, node in enumerate(nodes):
        places.setdefault(node.name, []).append(at)
    waiting = deque(range(len(nodes)))
    queued = set(waiting)
    while waiting:
        at = waiting.popleft()
        queued.discard(at)
        for name in _learn(nodes[at], shapes, names):
            for other in (*places[name], *readers.get(name, ())):
                if other not in queued:
                    queued.add(other)
                    waiting.append(other)


def _learn(node: Node, shapes: dict[Output, Shape], names: set[str]) -> list[str]:
    """Apply the rule of a node; return the nodes whose outputs became better known."""
    rule = RULES.get(node.op)
    if rule is None:
        return []
    # An input without a node is an argument of a function, which the name does not identify.
    inputs = [made if made and made[0] in names else None for made in inputs_of(node)]
    outputs: list[Output | None] = [(node.name, at) for at in sorted(node.output_shapes) or (0,)]
    before = [shapes.get(output, ()) if output else () for output in (*inputs, *outputs)]
    if all(map(is_complete, before)):
        return []
    tensors = BoundTensors(before[: len(inputs)], before[len(inputs) :], node.attributes)
    rule(tensors)
    learned = []
    after = (*tensors.inputs, *tensors.outputs)
    for output, old, new in zip((*inputs, *outputs), before, after, strict=True):
        if output is not None and new != old:
            shapes[output] = new
            learned.append(output[0])
    return learned
