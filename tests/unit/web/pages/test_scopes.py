"""The page of scopes: a tree that is told as far as it can be seen."""

from __future__ import annotations

import json

import pytest

from tests.support.op_runs import Ran, RunOfOps
from tfprobe.errors import NoAnswer
from tfprobe.web.code_tree import MOST_LEVELS, fold
from tfprobe.web.pages.costs import scopes

RUN = (
    Ran("net/dense/MatMul", us=30),
    Ran("net/dense/BiasAdd", "BiasAdd", 5),
    Ran("net/out/MatMul", us=10),
    Ran("gradient_tape/net/dense/MatMul", us=40),
    Ran("loss", "Mean", 1),
)


def _tree(found: dict) -> list[tuple[str, int, int]]:
    places = found["places"]
    return list(zip(places["name"], places["parent"], places["time_ns"], strict=True))


def test_a_place_stands_behind_its_parent_with_what_is_below_it() -> None:
    """Dearest first; what it cost itself stands beside it."""
    found = RunOfOps(*RUN).ask("scopes", at="net")

    assert _tree(found) == [
        ("net", -1, 45_000),
        ("dense", 0, 35_000),
        ("MatMul", 1, 30_000),
        ("BiasAdd", 1, 5_000),
        ("out", 0, 10_000),
        ("MatMul", 4, 10_000),
    ]
    assert found["places"]["own_time_ns"] == [0, 0, 30_000, 5_000, 0, 10_000]
    assert found["whole"]["time_ns"] == 86_000


def test_layers_have_their_gradients() -> None:
    """In a scope of their own."""
    found = RunOfOps(*RUN).ask("scopes", by="layer", at="net/dense")

    assert _tree(found)[:2] == [("dense", -1, 75_000), ("(backward)", 0, 40_000)]


def test_gradients_that_come_to_one_name_both_pay() -> None:
    """Two tapes may have differentiated the same layer."""
    again = Ran("gradients/net/dense/MatMul", us=7)

    places = RunOfOps(*RUN, again).ask("scopes", by="layer", at="net/dense/(backward)")["places"]

    assert (places["name"], places["time_ns"]) == (["(backward)", "MatMul"], [47_000, 47_000])


def test_the_path_of_a_place_is_made_of_names() -> None:
    """What a page joins, a question finds: a name that begins with a slash, too."""
    run = RunOfOps(Ran("/odd//name", us=10))

    names = run.ask("scopes")["places"]["name"]

    assert "/".join(names[1:]) == "/odd//name"
    assert run.ask("scopes", at="/odd/")["places"]["time_ns"][0] == 10_000


def test_what_is_too_small_to_be_seen_is_counted(monkeypatch) -> None:
    """And comes when one looks closer."""
    small = [Ran(f"a/s{at}", us=1) for at in range(3)]
    run = RunOfOps(Ran("a/big", us=9_000), *small, Ran("b", us=1_000))

    places = run.ask("scopes")["places"]

    assert "s0" not in places["name"]
    at = places["name"].index("a")
    assert (places["smaller"][at], places["smaller_cost"][at]) == (3, 3_000)


def test_a_tree_is_told_up_to_a_number_of_places(monkeypatch) -> None:
    """The dearest of them."""
    run = RunOfOps(*(Ran(f"n{at}", us=100 + at) for at in range(20)))
    folds = fold
    monkeypatch.setattr(scopes, "fold", lambda top, column: folds(top, column, most=5))

    places = run.ask("scopes")["places"]

    assert places["name"] == ["", "n19", "n18", "n17", "n16"]
    assert places["smaller"][0] == 16


def test_a_tree_ten_thousand_deep_is_told_to_where_one_can_look() -> None:
    """Level by level a page asks for more."""
    run = RunOfOps(Ran("/".join("a" * 1200), us=10))

    found = run.ask("scopes")

    assert len(found["places"]["name"]) == MOST_LEVELS + 1
    assert found["places"]["smaller"][-1] == 1


def test_a_scope_that_is_not_there_has_no_answer() -> None:
    """Not an empty tree."""
    with pytest.raises(NoAnswer, match="No op of this loop"):
        RunOfOps(*RUN).ask("scopes", at="nett")


def test_a_name_of_a_megabyte_is_cut_and_says_so() -> None:
    """It cannot be asked for."""
    found = RunOfOps(Ran("m" * 2**20)).ask("scopes")

    assert found["places"]["is_whole"] == [True, False]
    assert len(json.dumps(found)) < 10_000


@pytest.mark.parametrize("metric", ["bytes", "float_ops", "params"])
def test_other_costs_make_other_trees(metric: str) -> None:
    """A tree of what nobody knows is its root."""
    found = RunOfOps(*RUN).ask("scopes", metric=metric)

    assert found["places"]["name"] == [""]
