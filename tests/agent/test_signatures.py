"""What differs between two compilations of a function of JAX, in words."""

from __future__ import annotations

from typing import Any

from tests.support.agent import load

signatures = load("frameworks.jax.signatures")
Leaf, changes = signatures.Leaf, signatures.changes


def array(shape: tuple[int, ...], dtype: str = "float32", sharding: str = "") -> Any:
    """Return the words of one array."""
    text = f"{dtype}[{','.join(map(str, shape))}]"
    return Leaf((("shape", shape), ("dtype", dtype), ("weak type", False)), text, sharding)


def test_the_most_similar_signature_is_compared() -> None:
    """A function that is called with two batch sizes and then with another type has one change."""
    known = [
        {"x": array((8, 3)), "y": array((8,))},
        {"x": array((5, 3)), "y": array((5,))},
    ]

    found = changes(known, {"x": array((8, 3)), "y": array((8,), "int32")})

    assert found == [
        {"argument": "y", "what": "dtype", "before": "float32[8]", "after": "int32[8]"}
    ]


def test_several_things_may_differ_in_one_argument() -> None:
    """They are one change."""
    (change,) = changes([{"x": array((8,))}], {"x": array((4,), "int32")})

    assert change["what"] == "shape, dtype"


def test_an_array_that_is_new_or_gone_is_named_and_not_the_whole() -> None:
    """The structure of the dictionary differs because of it."""
    before = {"state": Leaf((("structure", 1),), "{a}"), "state['a']": array((2,))}
    after = {
        "state": Leaf((("structure", 2),), "{a, b}"),
        "state['a']": array((2,)),
        "state['b']": array((3,)),
    }

    assert changes([before], after) == [
        {"argument": "state['b']", "what": "structure", "before": "", "after": "float32[3]"}
    ]
    assert [change["before"] for change in changes([after], before)] == ["float32[3]"]


def test_another_structure_with_the_same_arrays_is_a_change_of_the_whole() -> None:
    """A field of it that is no array, such as a function."""
    before = {"state": Leaf((("structure", 1),), "State"), "state.a": array((2,))}
    after = {"state": Leaf((("structure", 2),), "State"), "state.a": array((2,))}

    (change,) = changes([before], after)

    assert (change["argument"], change["what"]) == ("state", "structure")


def test_a_sharding_explains_only_what_nothing_else_does() -> None:
    """Arrays move for many reasons."""
    known = [{"x": array((8,)), "y": array((8,))}]

    moved = changes(known, {"x": array((8,), sharding="device 1"), "y": array((8,))})
    both = changes(known, {"x": array((8,), sharding="device 1"), "y": array((4,))})

    assert [(change["what"], change["before"]) for change in moved] == [("sharding", "none")]
    assert [change["what"] for change in both] == ["shape"]


def test_an_array_in_place_of_something_else_is_a_change_of_type() -> None:
    """What describes them differs."""
    (change,) = changes([{"x": Leaf((("type", "object"),), "object")}], {"x": array((2,))})

    assert change["what"] == "type"


def test_the_same_arguments_have_no_change() -> None:
    """The caches were cleared, or an option of JAX is another."""
    assert changes([{"x": array((8,))}], {"x": array((8,))}) == []
