"""The scopes around a name."""

from __future__ import annotations

from tfprobe.analysis.core.names import (
    MOST_CHARACTERS,
    MOST_SCOPES,
    bounded,
    by_layer,
    scopes_around,
)
from tfprobe.profile.graph import Graph, Node

DEEP = "/".join(["a"] * 100_000)


def test_scopes_come_innermost_first():
    """A node is no scope of itself."""
    assert scopes_around("net/dense/MatMul") == ["net/dense", "net"]
    assert scopes_around("Mean") == []


def test_a_name_of_many_levels_has_few_scopes():
    """All of them together would have 10 GB."""
    found = scopes_around(DEEP)

    assert len(found) == MOST_SCOPES
    assert found[0] == "/".join(["a"] * MOST_SCOPES)
    assert all(len(each) <= MOST_CHARACTERS for each in scopes_around("b" * 2000 + "/" + DEEP))
    assert len(by_layer(Graph((Node(DEEP, "MatMul"), Node("b", "MatMul")))).nodes) == 2


def test_what_is_deeper_is_one_step():
    """It keeps its own name, so that its costs stay its own."""
    assert bounded("net/dense/MatMul") == "net/dense/MatMul"
    assert bounded(DEEP).count("/") == MOST_SCOPES
    assert bounded(DEEP) != bounded(DEEP + "/a")
    assert bounded("x" * 5000 + "/y").count("/") == 1
