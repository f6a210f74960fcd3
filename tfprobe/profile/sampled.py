"""Hold the sampled steps of one work: its graph, and every execution of a node of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tfprobe.profile.executions import Executions
from tfprobe.profile.graph import Graph, Node, Shape
from tfprobe.profile.profile import Capture, Work
from tfprobe.profile.tables import Int32s

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
class SampledWork:
    """A work whose steps were sampled. Nodes of the graph are numbered; `node` is each row's.

    `devices` are those on which a node ran, several joined by "|".

    `has_graph` and `has_memory` say whether the recording told of edges and of memory.
    `shapes` are those that outputs had when they ran, by the name of the node and the number of the
    output, where all captures looked at agree. `optimized` are nodes that the graph optimizer
    made, by their name and op; their inputs are named as in the graph. `arguments` says which
    output of which node is passed to a function under a name, `loop_variables` what loops carry,
    `insides` which nodes the function has that a node runs.
    `shared_names` are those of several nodes that compute different things: the graph has the first
    of them.
    """

    work: Work
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
