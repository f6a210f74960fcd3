"""One name for an op everywhere: that of what ran."""

from __future__ import annotations

from tests.support.profiles import Step, loop, profile
from tests.unit.analysis.transfers.test_transfers import row
from tfprobe.analysis.ops.cost_tree import ViewOptions
from tfprobe.analysis.ops.op_stats import by_type, step_costs
from tfprobe.analysis.ops.op_view import as_executed, in_graph, op
from tfprobe.profile.capture_tables import Place
from tfprobe.profile.graph import Node
from tfprobe.profile.reader.traced_steps import join

FUSED = "_FusedConv2D"


def test_an_op_has_the_name_that_the_report_has() -> None:
    """A fused op has the name of the last node in it, and the type of what ran."""
    made = profile(
        [
            Step(
                [
                    row("conv/Relu", 0, 30, Place.HOST, op_type=FUSED),
                    row("relu", 30, 10, Place.HOST, op_type="Relu"),
                ]
            )
        ]
    )
    nodes = {node.name: node for node in (Node("conv/Relu", "Relu"), Node("relu", "Relu"))}
    sampled = join(loop(), made.captures, made.executions, nodes)

    found = as_executed(sampled)

    view = op(found, step_costs(found, -1), ViewOptions(order_by="micros"))
    assert [each.name for each in view.entries] == [each.type for each in by_type(made.executions)]
    assert [each.name for each in view.entries] == [FUSED, "Relu"]
    assert in_graph(found.graph.nodes) == ["Relu"]


def test_what_did_not_run_keeps_the_name_of_the_graph() -> None:
    """What would have run is unknown."""
    made = profile([Step([row("a", 0, 10, Place.HOST, op_type="MatMul")])])
    nodes = {node.name: node for node in (Node("a", "MatMul"), Node("b", "BiasAdd"))}

    found = as_executed(join(loop(), made.captures, made.executions, nodes))

    assert [node.op for node in found.graph.nodes] == ["MatMul", "BiasAdd"]
    assert in_graph(found.graph.nodes) == []
