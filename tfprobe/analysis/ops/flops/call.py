"""Hold what a formula may look at: the shapes that one run of an op met, and its attributes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod

from tfprobe.profile.graph import Attribute, Shape


class UnknownOperands(Exception):
    """A formula needs something of an op that is not known; the text says what."""


@dataclass(frozen=True, slots=True)
class OpCall:
    """One run of an op. Shapes are as in a Node: () unknown, (1,) of a scalar, -1 unknown size.

    `inputs` and `outputs` are by index; the former are those of all inputs, control inputs too.
    """

    inputs: tuple[Shape, ...]
    outputs: tuple[Shape, ...]
    attributes: Mapping[str, Attribute]

    def input(self, index: int) -> Shape:
        """Return the shape of an input. Raises UnknownOperands where it is not complete."""
        return _complete(self.inputs, index, "input")

    def output(self, index: int = 0) -> Shape:
        """Return the shape of an output. Raises UnknownOperands where it is not complete."""
        return _complete(self.outputs, index, "output")

    def size_in(self, index: int = 0) -> int:
        """Return how many elements an input has."""
        return prod(self.input(index))

    def size_out(self, index: int = 0) -> int:
        """Return how many elements an output has."""
        return prod(self.output(index))

    def number(self, name: str, default: int = 0) -> int:
        """Return an attribute that is a whole number."""
        found = self.attributes.get(name, default)
        return found if isinstance(found, int) else default

    def numbers(self, name: str) -> tuple[int, ...]:
        """Return an attribute that is a list of numbers; an empty one where it is not there."""
        found = self.attributes.get(name, ())
        return found if isinstance(found, tuple) else ()

    def text(self, name: str, default: str = "") -> str:
        """Return an attribute that is text."""
        found = self.attributes.get(name, default)
        return found if isinstance(found, str) else default

    def flag(self, name: str) -> bool:
        """Return an attribute that is a truth, false where it is not there."""
        return bool(self.attributes.get(name, False))


Formula = Callable[[OpCall], float]


def per_input(each: int = 1, index: int = 0) -> Formula:
    """Return the formula of so many operations for each element of an input."""
    return lambda call: each * call.size_in(index)


def per_output(each: int = 1) -> Formula:
    """Return the formula of so many operations for each element of the output."""
    return lambda call: each * call.size_out()


def _complete(shapes: tuple[Shape, ...], index: int, what: str) -> Shape:
    shape = shapes[index] if index < len(shapes) else ()
    if not shape:
        raise UnknownOperands(f"the shape of {what} {index} is unknown")
    if min(shape) < 0:
        raise UnknownOperands(f"a dimension of {what} {index} is unknown")
    return shape
