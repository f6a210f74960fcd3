"""Write the value of a tensor as tfprof does: nested brackets, two digits, and not too much."""

from __future__ import annotations

from collections.abc import Iterator

from tfprobe.profile.graph import Shape
from tfprobe.profile.records import Tensor

_MOST_CHARACTERS = 10_000
_OMITTED = "...omitted from display\n\n"


def text_of(tensor: Tensor) -> str:
    """Return the lines below a node that show its value."""
    parts: list[str] = []
    length = 0
    for part in _parts(tensor.shape or (1,), iter(tensor.values)):
        parts.append(part)
        length += len(part)
        if length > _MOST_CHARACTERS:
            return "".join(parts)[:_MOST_CHARACTERS] + _OMITTED
    return "".join(parts)


def _parts(shape: Shape, values: Iterator[float | int | str]) -> Iterator[str]:
    """Give opening brackets, values and closing brackets, as deep as there are dimensions."""
    yield "["
    for _ in range(shape[0]):
        if len(shape) > 1:
            yield from _parts(shape[1:], values)
        else:
            yield _value(next(values))
    yield "],\n"


def _value(value: float | int | str) -> str:
    if isinstance(value, str):
        return f"'{value}' "
    if isinstance(value, int):
        return f"{value} "
    # Through six digits, as the engine's own stream does before it cuts to two.
    return f"{float(f'{value:.6g}'):.2f} "
