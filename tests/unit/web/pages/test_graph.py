"""The page of the graph: groups below a scope, and what flows between them."""

from __future__ import annotations

import json

import pytest

from tests.support.op_runs import Ran, RunOfOps
from tfprobe.errors import NoAnswer
from tfprobe.web.pages.costs import scopes

FLOATS = {"output_shapes": {0: (2, 3)}, "dtypes": ("DT_FLOAT",)}
RUN = (
    Ran("x", "Placeholder", 1, more=FLOATS),
    Ran("net/a/MatMul", us=30, inputs=("x",), more=FLOATS),
    Ran("net/a/Relu", "Relu", 5, inputs=("net/a/MatMul",), more=FLOATS),
    Ran("net/b/MatMul", us=10, inputs=("net/a/Relu", "net/a/Relu", "^x")),
    Ran("loss", "Mean", 1, inputs=("net/b/MatMul", "gone")),
)


def _edges(found: dict) -> dict[tuple[str, str], tuple[int, int | None, int]]:
    names = [each["name"] for each in found["groups"]]
    return {
        (names[edge["from"]], names[edge["to"]]): (edge["tensors"], edge["bytes"], edge["waits"])
        for edge in found["edges"]
    }


def test_the_whole_graph_is_its_outermost_scopes() -> None:
    """A tensor counts once, however many take it; one that is only waited for is no tensor."""
    found = RunOfOps(*RUN).ask("graph")

    groups = {each["name"]: (each["kind"], each["time_ns"]) for each in found["groups"]}
    assert groups == {
        "net": ("scope", 45_000),
        "x": ("op", 1_000),
        "loss": ("op", 1_000),
        "(arguments)": ("outside", 0),
    }
    assert _edges(found) == {
        ("x", "net"): (1, 24, 1),
        ("net", "loss"): (1, None, 0),
        ("(arguments)", "loss"): (1, None, 0),
    }


def test_a_scope_is_entered() -> None:
    """What it has to do with the rest stands around it."""
    found = RunOfOps(*RUN).ask("graph", at="net")

    assert [(each["name"], each["kind"]) for each in found["groups"]] == [
        ("a", "scope"),
        ("b", "scope"),
        ("x", "outside"),
        ("loss", "outside"),
    ]
    assert _edges(found) == {
        ("a", "b"): (1, 24, 0),
        ("x", "a"): (1, 24, 0),
        ("x", "b"): (0, None, 1),
        ("b", "loss"): (1, None, 0),
    }
    (shapes,) = {tuple(edge["shapes"]) for edge in found["edges"] if edge["bytes"]}
    assert shapes == ("float32[2,3]",)


def test_what_is_outside_is_named_by_where_the_ways_part() -> None:
    """A neighbour of the scope by its own name."""
    run = RunOfOps(Ran("n/a/x", us=1), Ran("n/b/y", us=1, inputs=("n/a/x",)))

    found = run.ask("graph", at="n/b")

    assert [each["path"] for each in found["groups"]] == ["n/b/y", "n/a"]


def test_an_op_with_others_below_it_is_a_scope_that_holds_itself() -> None:
    """And tells what it is."""
    run = RunOfOps(Ran("m", us=3), Ran("m/read", "Read", 1))

    (whole,) = run.ask("graph")["groups"]
    inside = run.ask("graph", at="m")["groups"]

    assert (whole["kind"], whole["op"]["type"], whole["time_ns"]) == ("scope", "MatMul", 4_000)
    assert [(each["name"], each["kind"]) for each in inside] == [("m", "op"), ("read", "op")]


def test_a_loop_is_edges_both_ways() -> None:
    """And an op that feeds itself has none."""
    run = RunOfOps(Ran("a", inputs=("b", "a")), Ran("b", inputs=("a",)))

    assert _edges(run.ask("graph")).keys() == {("a", "b"), ("b", "a")}


def test_an_argument_of_a_function_is_what_is_passed_for_it() -> None:
    """Even if a damaged graph passes it to itself."""
    run = RunOfOps(Ran("a"), Ran("f/b", inputs=("arg", "loop")))
    object.__setattr__(run.traced, "arguments", {"arg": ("a", 0), "loop": ("loop", 0)})

    assert _edges(run.ask("graph")).keys() == {("a", "f"), ("(arguments)", "f")}


def test_the_cheapest_are_left_out_and_told(monkeypatch) -> None:
    """With what they cost together."""
    monkeypatch.setattr(scopes, "MOST_GROUPS", 2)

    found = RunOfOps(*(Ran(f"n{at}", us=at + 1) for at in range(5))).ask("graph")

    assert [each["name"] for each in found["groups"]] == ["n4", "n3"]
    assert found["left"] == {"groups": 3, "time_ns": 6_000}


def test_what_never_ran_is_hidden_at_first() -> None:
    """A graph of TensorFlow 1 is full of savers and initializers."""
    run = RunOfOps(Ran("a"), Ran("save/x", us=0))

    assert [each["name"] for each in run.ask("graph")["groups"]] == ["a"]
    assert run.ask("graph")["idle_groups"] == 1
    assert len(run.ask("graph", idle="show")["groups"]) == 2


def test_what_flows_through_what_never_ran_is_an_edge() -> None:
    """The optimizer makes one op of several: what stood between two of them is no gap."""
    run = RunOfOps(
        Ran("a"),
        Ran("fused", us=0, inputs=("a", "fused2")),
        Ran("fused2", us=0, inputs=("fused",)),
        Ran("b", inputs=("fused2",)),
    )

    (edge,) = run.ask("graph")["edges"]

    assert (edge["from"], edge["to"], edge["is_bridge"]) == (0, 1, True)


def test_a_scope_that_is_not_there_has_no_answer() -> None:
    """A recording without a graph has a page that says so."""
    with pytest.raises(NoAnswer, match="No op of this loop"):
        RunOfOps(*RUN).ask("graph", at="nett")

    assert "no graph" in RunOfOps(*RUN, has_graph=False).ask("graph")["nothing"]


@pytest.mark.parametrize("name", ["<script>", "a/../../b", "//", "x" * 2**20])
def test_hostile_names_are_text_of_a_bounded_length(name: str) -> None:
    """Those that are too long cannot be entered."""
    found = RunOfOps(Ran(name, inputs=(name,))).ask("graph")

    assert len(json.dumps(found)) < 10_000
    if len(name) > 1000:
        assert found["groups"][0]["path"] is None
