"""Hold the graph of a loop, and the traced steps of that loop: every execution of a node of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from tfprobe.profile.capture_tables import Executions
from tfprobe.profile.hlo import RanProgram
from tfprobe.profile.profile import Capture, Loop
from tfprobe.profile.tables import Int32s
from tfprobe.profile.torch_call import TorchCall

Shape = tuple[int, ...]
# What an attribute of a node is: text, a number, a truth or a list of whole numbers.
Attribute = str | int | float | bool | tuple[int, ...]
# A node of these runs a function, whose nodes then carry its name as a scope.
_CALLS = ("PartitionedCall", "StatefulPartitionedCall")
# TensorFlow runs the bodies of loops and branches inline, below "<node>/body/_7/"; the names behind
# the number are those inside the function.
_INLINED = re.compile(r"(?:body|cond|then|else|branch\d*)/_\d+/")


@dataclass(frozen=True, slots=True)
class Frame:
    """A line of Python that made an op; `function_line` is where its function begins, or -1."""

    file: str
    line: int
    function: str
    function_line: int = -1


@dataclass(frozen=True, slots=True)
class Node:
    """One node of a graph.

    `inputs` are names of producers by input index; one of them may be no node of the graph.
    `shape` is that of the parameter a variable holds: (1,) for a scalar, () where it is unknown or
    the node is none; -1 is an unknown dimension. `sources` says by input index which output of the
    producer it is, where that is not the first. `float_ops` are those of one run, 0 unknown.
    `waits` are the inputs that bring no tensor: the node runs after those producers.
    `dtypes` are those of the outputs, "DT_FLOAT"; one stands for all, none where nobody tells.
    `variables` are those that it uses, by the node of the outermost graph that is the variable or
    its handle, through the functions that pass it on.
    `in_graph` is the op that the graph has, where `op` is another that ran for it.
    `attributes` are those that say how much there is to compute. `trace` is outermost frame first,
    None where the profile does not know it. Of an instruction of a compiled program, `fused` are
    the framework's ops in it, if it is a fusion, and `is_backward` says that it computes gradients
    of what its trace made. `call` says how an op of PyTorch was called.
    """

    name: str
    op: str
    inputs: Mapping[int, str] = field(default_factory=dict)
    shape: Shape = ()
    output_shapes: Mapping[int, Shape] = field(default_factory=dict)
    types: frozenset[str] = frozenset()
    float_ops: int = 0
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    sources: Mapping[int, int] = field(default_factory=dict)
    dtypes: tuple[str, ...] = ()
    waits: frozenset[int] = frozenset()
    variables: tuple[str, ...] = ()
    in_graph: str = ""
    trace: tuple[Frame, ...] | None = None
    fused: tuple[str, ...] = ()
    is_backward: bool = False
    call: TorchCall | None = None


@dataclass(frozen=True, slots=True)
class Graph:
    """Nodes in the order they became known; a node's id is its place.

    `minds_outputs`: whether tfprof looks at a node's `sources`. Its engine of TensorFlow 2 takes
    every input of a graph it reads to be the producer's first output, but believes a ProfileProto.
    """

    nodes: tuple[Node, ...]
    minds_outputs: bool = False

    @property
    def has_traces(self) -> bool:
        """Whether any node knows which code made it."""
        return any(node.trace is not None for node in self.nodes)


class Placed(Protocol):
    """A graph and the device each node was placed on, by node id; None where that is unknown."""

    @property
    def graph(self) -> Graph:
        """Return the graph."""

    @property
    def devices(self) -> tuple[str | None, ...]:
        """Return the devices."""


def known_name(name: str, nodes: Mapping[str, Node]) -> str:
    """Return a name without the calls, loops and branches in front of it, if the graph has that."""
    rest, at = name, 0  # up to there, `rest` is no call
    while rest not in nodes:
        at = rest.find("/", at) + 1
        if not at or at == len(rest):
            return name
        before, after = rest[: at - 1], rest[at:]
        call = nodes.get(before)
        inlined = _INLINED.match(after)
        if inlined is not None:
            rest, at = after[inlined.end() :], 0
        elif (before if call is None else call.op) in _CALLS:
            rest, at = after, 0
    return rest


# A node and the number of one of its outputs.
Output = tuple[str, int]


@dataclass(frozen=True, slots=True)
class LoopVariable:
    """What a loop of TensorFlow 2 carries from turn to turn, by its name inside the body.

    The first turn gets the output `initial`, each further one what the turn before it made,
    `result`; the loop's node gives the last one on as `output`.
    """

    argument: str
    initial: Output
    result: Output
    output: Output


@dataclass(frozen=True, slots=True)
class TracedLoop:
    """A loop whose steps were traced. Nodes of the graph are numbered; `node` is each row's.

    `devices` are those on which a node ran, several joined by "|".

    `has_graph` and `has_memory` say whether the recording told of edges and of memory.
    `shapes` are those that outputs had when they ran, by the name of the node and the number of the
    output, where all captures looked at agree. `optimized` are nodes that the graph optimizer
    made, by their name and op; their inputs are named as in the graph. `arguments` says which
    output of which node is passed to a function under a name, `loop_variables` what loops carry,
    `insides` which nodes the function has that a node runs.
    `shared_names` are those of several nodes that compute different things: the graph has the first
    of them. `programs` are those of XLA whose instructions ran.
    """

    loop: Loop
    graph: Graph
    devices: tuple[str | None, ...]
    captures: tuple[Capture, ...]
    executions: Executions
    node: Int32s
    has_graph: bool
    has_memory: bool
    shapes: Mapping[Output, Shape] = field(default_factory=dict)
    optimized: Mapping[tuple[str, str], Node] = field(default_factory=dict)
    arguments: Mapping[str, Output] = field(default_factory=dict)
    loop_variables: tuple[LoopVariable, ...] = ()
    insides: Mapping[str, frozenset[str]] = field(default_factory=dict)
    shared_names: frozenset[str] = frozenset()
    programs: tuple[RanProgram, ...] = ()


def are_alike(one: Node, other: Node) -> bool:
    """Say whether two nodes of one name compute the same, shapes aside."""
    return (one.op, one.inputs, one.sources, one.attributes) == (
        other.op,
        other.inputs,
        other.sources,
        other.attributes,
    )
