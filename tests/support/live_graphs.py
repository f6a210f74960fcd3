"""A graph that answers as a tf.Graph does, as far as the Python interface of tfprof asks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.support.captures import Node, run_metadata
from tfprobe.formats.schema import message_class

Shape = tuple[int, ...] | None


@dataclass
class ToyOp:
    """An op: its name, what made it and from what. A size of -1, or a shape of None, is unknown."""

    name: str
    type: str = "Identity"
    inputs: tuple[str, ...] = ()
    shape: Shape = (2, 3)
    traceback: list[tuple[str, int, str, str]] = field(default_factory=list)


@dataclass
class Variable:
    """A variable, which knows its op."""

    op: ToyOp


class ToyGraph:
    """A graph that grows; `asked` counts how often its nodes were asked for."""

    def __init__(self, *ops: ToyOp, trained: tuple[str, ...] = ()) -> None:
        """Start with these ops, of which some are trained variables."""
        self.ops = list(ops)
        self.trained = trained
        self.asked = 0

    @property
    def version(self) -> int:
        """It grows with every op."""
        return len(self.ops)

    def as_graph_def(self, add_shapes: bool = False) -> Any:
        """Return the GraphDef."""
        assert add_shapes, "shapes are needed"
        self.asked += 1
        graph = message_class("tfprobe.graph.GraphDef")()
        for op in self.ops:
            node = graph.node.add(name=op.name, op=op.type, input=op.inputs)
            _write_shape(node.attr["_output_shapes"].list.shape.add(), op.shape)
            if op.name in self.trained:
                _write_shape(node.attr["shape"].shape, op.shape)
        return graph

    def get_operations(self) -> list[ToyOp]:
        """Return the ops."""
        return list(self.ops)

    def get_collection(self, name: str) -> list[Variable]:
        """Return the variables that are trained."""
        assert name == "trainable_variables"
        return [Variable(op) for op in self.ops if op.name in self.trained]


def metadata(*rows: Node, device: str) -> Any:
    """Return the RunMetadata of these rows as a message."""
    message = message_class("tfprobe.step_stats.RunMetadata")()
    message.ParseFromString(run_metadata({device: rows}))
    return message


def metadata_with_shapes(shapes: dict[str, list[tuple[int, ...]]], *, device: str) -> Any:
    """Return a RunMetadata in which nodes had outputs of these shapes."""
    message = metadata(*map(Node, shapes), device=device)
    for row in message.step_stats.dev_stats[0].node_stats:
        del row.output[:]
        for shape in shapes[row.node_name]:
            _write_shape(row.output.add().tensor_description.shape, shape)
    return message


def _write_shape(written: Any, shape: Shape) -> None:
    if shape is None:
        written.unknown_rank = True
    for size in shape or ():
        written.dim.add(size=size)
