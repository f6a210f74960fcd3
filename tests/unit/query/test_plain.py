"""What is kept comes back as it was, and nothing else than its type comes out of a file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest

from tests.support.plain import plain as comparable
from tfprobe.errors import Missing
from tfprobe.query.codec import NotEncodable, plain


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    HIGH = 2


class Point(NamedTuple):
    x: int
    y: float


@dataclass(frozen=True, slots=True)
class Leaf:
    name: str
    times_ns: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Tree:
    leaf: Leaf | Missing
    count: int | Missing | None
    share_ratio: float
    colour: Colour
    levels: Mapping[Level, tuple[Point, ...]]
    pair: tuple[str, bool]
    names: frozenset[str]
    settings: Mapping[str, Any] | Missing
    below: tuple[Tree, ...] = ()


TREE = Tree(
    leaf=Leaf("é\ud800", np.array([[1, -(1 << 62)], [3, 4]])),
    count=Missing("not told"),
    share_ratio=0.1 + 0.2,
    colour=Colour.RED,
    levels={Level.HIGH: (Point(1, 5e-324), Point(2, float("inf")))},
    pair=("", True),
    names=frozenset({"a", "b"}),
    settings={"cpus": 4, "policy": ["float32", None]},
)


def through_a_file(value: Any, kind: Any) -> Any:
    return plain(kind).read(json.loads(json.dumps(plain(kind).write(value))))


def test_a_value_comes_back_as_it_was():
    """Floats, large whole numbers, arrays and reasons for missing data are kept to the last bit."""
    tree = Tree(**{name: getattr(TREE, name) for name in Tree.__slots__[:-1]}, below=(TREE,))

    assert comparable(through_a_file(tree, Tree)) == comparable(tree)


def test_a_whole_number_in_a_float_stays_whole():
    """Documents show 5 and 5.0 differently, so one must not become the other."""
    assert repr(through_a_file((5, 5.0), tuple[float, ...])) == "(5, 5.0)"


def test_numbers_of_numpy_become_pythons():
    """A sum that numpy made is kept like any other number."""
    found = through_a_file((np.int64(7), np.int64(8)), tuple[int, ...])

    assert [(type(each), each) for each in found] == [(int, 7), (int, 8)]


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (7, str),
        (True, int),
        (7.5, int),
        ("red", float),
        ("blue", Colour),
        ([1], tuple[int, int]),
        ({"x": 1}, Point),
        ([7, None], int | None),
        (["0", 7], int | None),
        (["O", [1], "AAAAAAAAAAA="], npt.NDArray[np.int64]),
        (["<i8,O", [1], "AAAAAAAAAAAAAAAAAAAAAA=="], npt.NDArray[np.int64]),
        (["<i8", [2], "AAAAAAAAAAA="], npt.NDArray[np.int64]),
        (["<i8", [-1], "AAAAAAAAAAA="], npt.NDArray[np.int64]),
        (["<i8", [1], "not base64"], npt.NDArray[np.int64]),
        (["<i8", [1], 7], npt.NDArray[np.int64]),
    ],
)
def test_what_is_not_of_the_type_is_refused(content, kind):
    """A file that somebody else wrote cannot make anything but what is asked for."""
    with pytest.raises(NotEncodable):
        plain(kind).read(content)


def test_a_value_of_another_type_is_not_written():
    """What would not come back is not kept."""
    with pytest.raises(NotEncodable):
        plain(int | Missing).write("seven")


def test_a_type_without_a_plain_form_is_a_mistake_of_ours():
    """Functions cannot be kept; whoever asks for it learns so at once."""
    with pytest.raises(TypeError, match="no plain form"):
        plain(type(len))


def test_one_of_a_few_texts_is_no_other_text():
    """A measure that nobody names does not come out of a file."""
    kind = plain(Literal["cycle", "step"])

    assert kind.read(kind.write("step")) == "step"
    for other in ("steps", 1, ["step"]):
        with pytest.raises(NotEncodable):
            kind.read(other)
