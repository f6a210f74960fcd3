"""The op table sums executions by type, as tfprof does."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest

from tests.support.golden import golden
from tests.support.profiles import Step, op, profile
from tfprobe.analysis.ops.op_stats import OpTable, op_table
from tfprobe.errors import Missing
from tfprobe.formats import run_metadata
from tfprobe.profile.capture_tables import Place


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


def test_without_a_sample_there_is_a_reason():
    """A run without captures has no op table, and says so."""
    assert op_table(profile()) == Missing("no step was traced")


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
