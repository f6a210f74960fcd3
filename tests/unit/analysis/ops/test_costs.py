"""What nodes cost, in columns: averages are over the steps in which a node ran."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.profiles import Step, loop, op, profile
from tfprobe.analysis.ops import op_stats
from tfprobe.analysis.ops.op_stats import AT, step_costs
from tfprobe.profile.graph import Graph, Node, TracedLoop


@pytest.mark.parametrize("table_bytes", [1, 2**26])
def test_an_average_is_over_the_steps_in_which_a_node_ran(monkeypatch, table_bytes) -> None:
    """However many captures are looked at together; several runs in one step count as one."""
    monkeypatch.setattr(op_stats, "_TABLE_BYTES", table_bytes)
    always = [Step([op("Relu", 0, 10), op("Relu", 20, 10)]) for _ in range(3)]
    once = Step([op("Relu", 0, 20), op("Assign", 50, 7)])
    sampled = _sampled(profile([*always, once]), ["Relu", "Assign"])

    rows = step_costs(sampled, -1).rows

    assert rows[:, AT["cpu_ns"]].tolist() == [20_000, 7_000]
    assert rows[:, AT["runs"]].tolist() == [1, 1]


def _sampled(found, op_types: list[str]) -> TracedLoop:
    rows = found.executions
    types = [rows.strings[at] for at in rows.op_type.tolist()]
    return TracedLoop(
        loop=loop(),
        graph=Graph(tuple(Node(name=each, op=each) for each in op_types)),
        devices=(None,) * len(op_types),
        captures=found.captures,
        executions=rows,
        node=np.array([op_types.index(each) for each in types], dtype=np.int32),
        has_graph=True,
        has_memory=False,
    )
