"""Hold how an op of PyTorch was called: the shapes and types of its arguments."""

from __future__ import annotations

from dataclasses import dataclass

Sizes = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TorchCall:
    """The arguments of an op, by position.

    `sizes` are those of a tensor, () of a scalar and of what is no tensor; of a list of tensors,
    `lists` has the sizes of each. `types` are C++'s, "float", "" where there is none. `values` are
    texts of what is no tensor, as PyTorch writes them, for the few ops that need them. `calls` are
    the ops that it called.
    """

    sizes: tuple[Sizes, ...] = ()
    lists: tuple[tuple[Sizes, ...], ...] = ()
    types: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    calls: frozenset[str] = frozenset()
