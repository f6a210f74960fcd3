"""Count the float operations of what ran, and tell why those of other nodes are unknown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tfprobe.errors import Missing
from tfprobe.model.executions import Place
from tfprobe.model.graph import Graph, Node, Shape
from tfprobe.model.sampled import Output, SampledWork
from tfprobe.views.enclosing import scopes_around
from tfprobe.views.flops import movement, table
from tfprobe.views.flops.call import Call, UnknownOperands
from tfprobe.views.flops.solve import inputs_of, shapes_of

Int64s = npt.NDArray[np.int64]
# Above this, some thousands of rows could not be added up in 64 bits.
_MOST = 2**50


@dataclass(frozen=True, slots=True)
class FloatOps:
    """Float operations of sampled steps.

    `of_rows` are those of each row of the executions, 0 for rows that do not count: kernels of a
    node that the host's rows tell of. `unknown` are, by node, the op that ran and the reason, of
    those that ran and of which they are not known.
    """

    of_rows: Int64s
    unknown: Mapping[int, tuple[str, str]]


def count(sampled: SampledWork) -> FloatOps:
    """Return the float operations of each row, from what an op log says, formulas and shapes."""
    rows = sampled.executions
    nodes = [_defined(node, sampled.optimized) for node in sampled.graph.nodes]
    shapes = shapes_of(replace(sampled, graph=Graph(tuple(nodes))))
    scopes = _scopes(sampled)
    counted = counted_rows(sampled)
    of_rows = np.zeros(len(rows), dtype=np.int64)
    unknown: dict[int, tuple[str, str]] = {}
    width = len(rows.strings.values) or 1
    pairs = sampled.node.astype(np.int64) * width + rows.op_type
    found, places = np.unique(pairs[counted], return_inverse=True)
    of_pairs = np.zeros(len(found), dtype=np.int64)
    for at, pair in enumerate(found.tolist()):
        number, op = pair // width, rows.strings[pair % width]
        of_run = _of_run(sampled, nodes[number], op, shapes, scopes)
        if isinstance(of_run, Missing):
            unknown.setdefault(number, (op, of_run.reason))
        else:
            of_pairs[at] = of_run
    of_rows[counted] = of_pairs[places.reshape(-1)]
    if unknown:
        of_rows[np.isin(sampled.node, list(unknown))] = 0
    return FloatOps(of_rows, unknown)


def _defined(node: Node, optimized: Mapping[tuple[str, str], Node]) -> Node:
    """Return what the optimizer made of a node of which the graph only knows that it ran."""
    if node.inputs or node.output_shapes:
        return node
    return optimized.get((node.name, node.op), node)


def counted_rows(sampled: SampledWork) -> npt.NDArray[np.bool_]:
    """Return which rows are a run of a node: those of the host, or kernels where there are none."""
    on_host = sampled.executions.place == Place.HOST
    launched = np.zeros(len(sampled.graph.nodes), dtype=np.bool_)
    launched[sampled.node[on_host]] = True
    counted: npt.NDArray[np.bool_] = on_host | ~launched[sampled.node]
    return counted


def _scopes(sampled: SampledWork) -> set[str]:
    """Return the scopes in which something ran, and the nodes whose functions ran beside them."""
    rows = sampled.executions
    scopes: set[str] = set()
    for position in np.unique(rows.name).tolist():
        scopes.update(scopes_around(rows.strings[position]))
    ran = {sampled.graph.nodes[at].name for at in np.unique(sampled.node).tolist()}
    scopes.update(name for name, inside in sampled.insides.items() if inside & ran)
    return scopes


def _of_run(
    sampled: SampledWork, node: Node, op: str, shapes: Mapping[Output, Shape], scopes: set[str]
) -> int | Missing:
    if node.float_ops:
        return node.float_ops
    if table.plain(op) in movement.CALLS:
        if node.name in scopes:
            return 0
        return Missing("it runs a function whose ops were not recorded")
    if node.op in movement.COPIES:
        return 0  # its rows are named by the driver
    if node.name in sampled.shared_names and table.plain(op) not in movement.OPS:
        return Missing("several functions have a node of this name")
    definition: Node | None = node
    if table.plain(op).removesuffix("WithBias") != table.plain(node.op):
        definition = sampled.optimized.get((node.name, op))
    if definition is None:
        return Missing("the graph optimizer made it, and the optimized graph does not tell of it")
    try:
        found = table.float_ops(op, _call(definition, node, shapes))
    except UnknownOperands as exc:
        return Missing(str(exc))
    return found if 0 <= found <= _MOST else Missing("its shapes are those of no machine")


def _call(definition: Node, node: Node, shapes: Mapping[Output, Shape]) -> Call:
    outputs = max((*node.output_shapes, *definition.output_shapes), default=0) + 1
    return Call(
        tuple(shapes.get(each, ()) if each else () for each in inputs_of(definition)),
        tuple(shapes.get((node.name, number), ()) for number in range(outputs)),
        definition.attributes,
    )
