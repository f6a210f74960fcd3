"""Our copy of tfprof's table of float operations counts what tfprof counts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.tf.laboratory import Laboratory
from tfprobe.analysis.ops.flops.engine import float_ops
from tfprobe.formats.graph_profile import graph_nodes
from tfprobe.profile.graph import Graph

# The first TensorFlow that has formulas for these.
NEW = {
    (1, 15): ("BatchMatMul",),
    (2, 0): ("BatchMatMulV2",),
    (2, 5): ("BatchMatMulV3",),
    (2, 13): ("AddV2",),
}
# Those that each version counts, so that a graph without one of them is noticed.
COUNTED_OPS = 46


@pytest.fixture(scope="module")
def counted(laboratory: Laboratory, tmp_path_factory) -> tuple[Graph, dict[str, int]]:
    """A graph of many ops, and what tfprof counts in it."""
    folder: Path = tmp_path_factory.mktemp("flops")
    outcome = laboratory.start("float_ops.py", str(folder)).outcome()
    assert outcome.status == 0, outcome.stderr
    graph = Graph(tuple(graph_nodes((folder / "graph.pb").read_bytes())))
    later = _later_ops(laboratory)
    graph = Graph(tuple(node for node in graph.nodes if node.op not in later))
    return graph, json.loads((folder / "float_ops.json").read_text())


def test_every_op_has_tfprofs_float_operations(counted) -> None:
    """Op by op, and none has some that has none there."""
    graph, expected = counted

    assert float_ops(graph) == expected


def test_the_graph_has_every_op_that_tfprof_counts(laboratory: Laboratory, counted) -> None:
    """No formula goes uncompared."""
    graph, expected = counted

    ops = {node.op for node in graph.nodes if node.name in expected}

    assert len(ops) == COUNTED_OPS - len(_later_ops(laboratory)), ops


def _later_ops(laboratory: Laboratory) -> list[str]:
    """Return the ops that this TensorFlow does not count yet."""
    return [op for first, ops in NEW.items() if laboratory.tensorflow < first for op in ops]
