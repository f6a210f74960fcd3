"""Hold the value of a tensor, as a checkpoint keeps it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from tfprobe.profile.graph import Shape


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor of numbers or of strings, row by row; a scalar has the shape ()."""

    shape: Shape
    values: tuple[float, ...] | tuple[int, ...] | tuple[str, ...]


class Tensors(Protocol):
    """Tensors by name, read when they are asked for."""

    @property
    def names(self) -> Collection[str]:
        """Return the names there are."""

    def read(self, name: str) -> Tensor:
        """Return the tensor of this name."""
