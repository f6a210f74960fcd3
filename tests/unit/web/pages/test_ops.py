"""The page of ops: what its rows are, what they sum to, and where they end."""

from __future__ import annotations

import json

import pytest

from tests.support.op_runs import CPU, GPU, Ran, RunOfOps
from tfprobe.errors import Missing, UsageError
from tfprobe.web.pages.costs import ops

RUN = (
    Ran("a/x", "MatMul", 30),
    Ran("a/y", "MatMul", 10),
    Ran("b/z", "Relu", 20),
    Ran("b/idle", "Save", 0),
)


def test_types_are_told_dearest_first_for_a_mean_step() -> None:
    """`total_ns` is that of all traced steps; what never ran has no row."""
    found = RunOfOps(*RUN).ask("ops")

    columns = ("type", "nodes", "time_ns", "total_ns")
    assert [tuple(row[each] for each in columns) for row in found["rows"]] == [
        ("MatMul", 2, 40_000, 80_000),
        ("Relu", 1, 20_000, 40_000),
    ]
    assert found["steps"] == 2
    assert sum(row["share_ratio"] for row in found["rows"]) == pytest.approx(1)


def test_a_type_opens_into_its_nodes() -> None:
    """Each with its scope, to which the page links."""
    found = RunOfOps(*RUN).ask("ops", by="name", type="MatMul")

    assert [(row["name"], row["scope"], row["time_ns"]) for row in found["rows"]] == [
        ("a/x", "a", 30_000),
        ("a/y", "a", 10_000),
    ]


def test_ops_say_whether_there_is_a_graph_to_see_them_in() -> None:
    """Without one, the page links to scopes and code alone."""
    assert RunOfOps(*RUN).ask("ops")["has_graph"]
    assert not RunOfOps(*RUN, has_graph=False).ask("ops")["has_graph"]


def test_a_device_can_be_looked_at_alone() -> None:
    """The list of devices is that of all of them all the same."""
    run = RunOfOps(Ran("x", us=10), Ran("y", us=30, device=GPU))

    found = run.ask("ops", by="name", device=1)

    assert [row["name"] for row in found["rows"]] == ["y"]
    assert found["rows"][0]["accelerator_ns"] == 30_000
    columns = ("name", "cpu_ns", "accelerator_ns")
    assert [tuple(each[name] for name in columns) for each in found["devices"]] == [
        (CPU, 10_000, 0),
        (GPU, 0, 30_000),
    ]


def test_a_device_that_is_not_there_is_refused() -> None:
    """With a sentence."""
    with pytest.raises(UsageError):
        RunOfOps(*RUN).ask("ops", device=7)


def test_what_is_not_recorded_is_null_with_its_reason() -> None:
    """Neither bytes nor float operations become 0."""
    found = RunOfOps(*RUN).ask("ops")

    row = found["rows"][0]
    assert (row["bytes"], row["float_ops"], row["float_ops_per_s"]) == (None, None, None)
    assert found["missing"].keys() >= {"bytes", "float_ops"}


@pytest.mark.parametrize("page", ["ops", "scopes", "code", "graph"])
def test_a_work_that_was_not_sampled_says_so(page: str) -> None:
    """Beside the loops that one may choose instead."""
    run = RunOfOps(*RUN)
    run.traced = Missing("no step of this loop was traced")

    found = run.ask(page)

    assert "no step of this loop was traced" in found["nothing"]
    assert len(found["works"]) == 1


def test_rows_beyond_the_most_are_summed(monkeypatch) -> None:
    """The dearest stay, and nothing is lost."""
    monkeypatch.setattr(ops, "MOST_ROWS", 1)

    found = RunOfOps(*RUN).ask("ops", by="name")

    assert [row["name"] for row in found["rows"]] == ["a/x"]
    assert found["left"] == {"rows": 2, "time_ns": 30_000}


def test_ten_thousand_nodes_of_one_type_are_one_row() -> None:
    """And two thousand by themselves."""
    run = RunOfOps(*(Ran(f"n/{at}", us=1) for at in range(10_000)), steps=1)

    assert [row["nodes"] for row in run.ask("ops")["rows"]] == [10_000]
    assert run.ask("ops", by="name")["left"]["rows"] == 8_000


@pytest.mark.parametrize(
    "name", ["<script>alert(1)</script>", "../../etc/passwd", "'\"`", "\u202egnp.exe", "x" * 2**20]
)
def test_hostile_names_are_text_of_a_bounded_length(name: str) -> None:
    """As they are, but not longer than a page can show."""
    run = RunOfOps(Ran(name, op=name))

    for by in ("type", "name"):
        text = json.dumps(run.ask("ops", by=by))
        assert len(text) < 10_000
        if len(name) < 100:
            assert json.dumps(name) in text


def test_the_treemap_holds_all_time() -> None:
    """Types, their dearest nodes and what is left of each."""
    (matmul, relu) = RunOfOps(*RUN).ask("ops")["treemap"]

    assert [node["time_ns"] for node in matmul["nodes"]] == [30_000, 10_000]
    assert (matmul["others"], matmul["others_ns"]) == (0, 0)
    assert relu["time_ns"] == 20_000
