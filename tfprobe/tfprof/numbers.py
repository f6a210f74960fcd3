"""Write numbers as tfprof does: decimal units, two digits, no unit above the third."""

from __future__ import annotations


def number(value: int) -> str:
    """Write a count."""
    return _scaled(value, ("", "k", "m", "b"))


def micros(value: int) -> str:
    """Write a time given in microseconds."""
    return _scaled(value, ("us", "ms", "sec"))


def memory(value: int) -> str:
    """Write an amount of memory given in bytes."""
    return _scaled(value, ("B", "KB", "MB"))


def shape(dimensions: tuple[int, ...]) -> str:
    """Write a shape as 3x3x3x6."""
    return "x".join(map(str, dimensions))


def _scaled(value: int, units: tuple[str, ...]) -> str:
    power = 0
    while power < len(units) - 1 and value >= 1000 ** (power + 1):
        power += 1
    return f"{value / 1000**power:.2f}{units[power]}" if power else f"{value}{units[0]}"
