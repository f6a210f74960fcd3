"""The cost of ops, summed by type, as tfprof does, and by node."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import numpy as np
import pytest

from tests.support.golden import golden
from tests.support.profiles import Step, loop, op, profile
from tfprobe.analysis.ops import op_stats
from tfprobe.analysis.ops.op_stats import AT, OpTable, op_table, step_costs, sums
from tfprobe.errors import Missing
from tfprobe.formats import run_metadata
from tfprobe.profile.capture_tables import Place
from tfprobe.profile.graph import Graph, Node, TracedLoop


def test_types_are_ordered_by_total_time():
    """Cpu and accelerator time are kept apart and added for the total."""
    rows = [
        op("MatMul", 0, 5, bytes=64),
        op("MatMul", 9, 7, Place.ACCELERATOR),
        op("MatMul", 9, 8, Place.ACCELERATOR),
        op("Relu", 30, 90),
    ]

    table = op_table(profile([Step(rows)]))

    assert isinstance(table, OpTable)
    relu, matmul = table.types
    assert (relu.type, relu.time_ns) == ("Relu", 90_000)
    assert (matmul.runs, matmul.time_ns, matmul.bytes) == (1, 20_000, 64)
    assert (matmul.cpu_ns, matmul.accelerator_ns) == (5_000, 15_000)


def test_types_sum_over_the_sampled_steps():
    """Two traced steps make one table."""
    table = op_table(profile([Step([op("Relu", 0, 10)]), Step([op("Relu", 0, 30)])]))

    assert isinstance(table, OpTable)
    assert (table.captures, table.types[0].runs, table.time_ns) == (2, 2, 40_000)


def test_transfers_are_no_ops():
    """A copy is in the breakdown, not in the op table."""
    rows = [op("MEMCPYHtoD", 0, 9, Place.HOST_TO_DEVICE), op("Relu", 0, 10)]

    table = op_table(profile([Step(rows)]))

    assert isinstance(table, OpTable)
    assert [item.type for item in table.types] == ["Relu"]


def test_copies_alone_are_no_table():
    """Steps that only moved memory ran no op."""
    rows = [op("MEMCPYHtoD", 0, 9, Place.HOST_TO_DEVICE)]

    assert op_table(profile([Step(rows)])) == Missing("the traced steps hold no execution of an op")


def test_executions_are_summed_by_any_group():
    """Rows beyond the last group are left out; copies count as time of the accelerator."""
    rows = [
        op("MatMul", 0, 5, bytes=64),
        op("MatMul", 9, 7, Place.ACCELERATOR),
        op("MEMCPYHtoD", 20, 2, Place.HOST_TO_DEVICE, bytes=32),
        op("Relu", 30, 90),
    ]

    found = sums(profile([Step(rows)]).executions, np.array([0, 0, 1, 2]), 2)

    assert (found.cpu_ns.tolist(), found.accelerator_ns.tolist()) == ([5_000, 0], [7_000, 2_000])
    assert (found.requested_bytes.tolist(), found.moved_bytes.tolist()) == ([64, 0], [0, 32])
    assert (found.runs.tolist(), found.time_ns.tolist()) == ([1, 1], [12_000, 2_000])


def test_without_a_traced_step_there_is_a_reason():
    """A run without captures has no op table, and says so."""
    assert op_table(profile()) == Missing("no step was traced")


@pytest.mark.parametrize("table_bytes", [1, 2**26])
def test_an_average_is_over_the_steps_in_which_a_node_ran(monkeypatch, table_bytes) -> None:
    """However many captures are looked at together; several runs in one step count as one."""
    monkeypatch.setattr(op_stats, "_TABLE_BYTES", table_bytes)
    always = [Step([op("Relu", 0, 10), op("Relu", 20, 10)]) for _ in range(3)]
    once = Step([op("Relu", 0, 20), op("Assign", 50, 7)])
    traced = _traced(profile([*always, once]), ["Relu", "Assign"])

    rows = step_costs(traced, -1).rows

    assert rows[:, AT["cpu_ns"]].tolist() == [20_000, 7_000]
    assert rows[:, AT["runs"]].tolist() == [1, 1]


def _traced(found, op_types: list[str]) -> TracedLoop:
    rows = found.executions
    types = [rows.strings[at] for at in rows.op_type.tolist()]
    return TracedLoop(
        loop=loop(),
        graph=Graph(tuple(Node(name=op_type, op=op_type) for op_type in op_types)),
        devices=(None,) * len(op_types),
        captures=found.captures,
        executions=rows,
        node=np.array([op_types.index(op_type) for op_type in types], dtype=np.int32),
        has_graph=True,
        has_memory=False,
    )


@pytest.mark.parametrize("case", ["tfprof_testdata", "syn_gpu_loop", "syn_devices", "syn_op"])
def test_totals_agree_with_the_engine(case):
    """Time and bytes over all types are the root of the C++ engine's op view.

    Only RecvTensor counts here and not there: waiting for another host is time, too.
    """
    folder = golden("engine_tf2.21", case)
    (content,) = [path.read_bytes() for path in folder.glob("run_meta_*.pb")]

    table = op_table(profile([Step(run_metadata.rows(content))]))

    assert isinstance(table, OpTable)
    types = [item for item in table.types if item.type != "RecvTensor"]
    time_us = sum(item.time_ns for item in types) // 1000
    assert (time_us, sum(item.bytes for item in types)) == _engine_root(folder)


def _engine_root(folder: Path) -> tuple[int, int]:
    """Return the root's µs and bytes from the first op view over everything."""
    results = json.loads(gzip.decompress((folder / "results.json.gz").read_bytes()))["results"]
    text = next(r["proto"] for r in results if r["view"] == "op" and r["options"]["step"] == -1)
    micros, requested = (
        int(found[1]) if (found := re.search(rf"^{name}: (\d+)", text, re.MULTILINE)) else 0
        for name in ("total_exec_micros", "total_requested_bytes")
    )
    return micros, requested
