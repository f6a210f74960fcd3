"""The input of a formula: the shapes of one execution of an op, and its attributes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod

from tfprobe.profile.graph import Attribute, Shape


class UnknownOperands(Exception):
    """A formula needs something about an op that is unknown; the text says what."""


@dataclass(frozen=True, slots=True)
class OpCall:
    """One execution of an op. Shapes are as in a Node: () unknown, (1,) a scalar, -1 unknown size.

    `inputs` and `outputs` are by index; `inputs` includes control inputs.
    """

    inputs: tuple[Shape, ...]
    outputs: tuple[Shape, ...]
    attributes: Mapping[str, Attribute]

    def input(self, index: int) -> Shape:
        """Return the shape of an input. Raises UnknownOperands if it is incomplete."""
        return _complete(self.inputs, index, "input")

    def output(self, index: int = 0) -> Shape:
        """Return the shape of an output. Raises UnknownOperands if it is incomplete."""
        return _complete(self.outputs, index, "output")

    def size_in(self, index: int = 0) -> int:
        """Return the number of elements of an input."""
        return prod(self.input(index))

    def size_out(self, index: int = 0) -> int:
        """Return the number of elements of an output."""
        return prod(self.output(index))

    def number(self, name: str, default: int = 0) -> int:
        """Return an integer attribute."""
        found = self.attributes.get(name, default)
        return found if isinstance(found, int) else default

    def numbers(self, name: str) -> tuple[int, ...]:
        """Return an attribute that is a list of numbers, empty if it is absent."""
        found = self.attributes.get(name, ())
        return found if isinstance(found, tuple) else ()

    def text(self, name: str, default: str = "") -> str:
        """Return a text attribute."""
        found = self.attributes.get(name, default)
        return found if isinstance(found, str) else default

    def flag(self, name: str) -> bool:
        """Return a boolean attribute, false if it is absent."""
        return bool(self.attributes.get(name, False))


Formula = Callable[[OpCall], float]


def per_input(factor: int = 1, index: int = 0) -> Formula:
    """Return the formula of `factor` operations per element of an input."""
    return lambda call: factor * call.size_in(index)


def per_output(factor: int = 1) -> Formula:
    """Return the formula of `factor` operations per element of the output."""
    return lambda call: factor * call.size_out()


def _complete(shapes: tuple[Shape, ...], index: int, what: str) -> Shape:
    shape = shapes[index] if index < len(shapes) else ()
    if not shape:
        raise UnknownOperands(f"the shape of {what} {index} is unknown")
    if min(shape) < 0:
        raise UnknownOperands(f"a dimension of {what} {index} is unknown")
    return shape
