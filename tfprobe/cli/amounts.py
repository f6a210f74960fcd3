"""Read ages such as `12h` and sizes such as `2GiB` from a command line."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal

import click

_SECOND_NS = 1_000_000_000
_AGE_UNITS: Mapping[str, int] = {
    "s": _SECOND_NS,
    "m": 60 * _SECOND_NS,
    "min": 60 * _SECOND_NS,
    "h": 3600 * _SECOND_NS,
    "d": 24 * 3600 * _SECOND_NS,
    "w": 7 * 24 * 3600 * _SECOND_NS,
}
# As ls, du and dd of GNU write them: M and MiB are 2^20, MB is 10^6.
_SIZE_UNITS: Mapping[str, int] = {
    "b": 1,
    **{f"{letter}{ending}": 1024**power for power, letter in enumerate("kmgt", 1)
       for ending in ("", "ib")},
    **{f"{letter}b": 1000**power for power, letter in enumerate("kmgt", 1)},
}  # fmt: skip
# Nothing that was recorded is older, and all times of ours fit 64 bits.
_LONGEST_NS = 100 * 365 * _AGE_UNITS["d"]
_LARGEST_BYTES = 2**63 - 1
_AMOUNT = re.compile(r"([0-9]{1,30}(?:\.[0-9]{1,30})?)\s*([A-Za-z]+)")
_AGE_EXPECTED = "an age is expected, as in 90s, 15m, 12h, 7d or 2w"
_SIZE_EXPECTED = "a size is expected, as in 500M, 2GiB or 1.5GB"


class _Unreadable(ValueError):
    """The text is no such amount; the message says what is expected."""


def as_age(_: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """Read the value of an option that takes an age, in ns: a callback of click's."""
    return None if value is None else _read(age_ns, value, param)


def as_size(_: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """Read the value of an option that takes a size, in bytes: a callback of click's."""
    return None if value is None else _read(size_bytes, value, param)


def age_ns(text: str) -> int:
    """Read `90s`, `15m`, `12h`, `7d`, `2w`, more than nothing, in ns. Raises ValueError."""
    amount = _amount(text, _AGE_UNITS, _AGE_EXPECTED)
    if amount > _LONGEST_NS:
        raise _Unreadable("nothing is older than a century")
    return amount


def size_bytes(text: str) -> int:
    """Read `500M`, `2GiB`, `1.5GB`, more than nothing, in bytes. Raises ValueError."""
    amount = _amount(text.lower(), _SIZE_UNITS, _SIZE_EXPECTED)
    if amount > _LARGEST_BYTES:
        raise _Unreadable("no disk is that large")
    return amount


def _read(read: Callable[[str], int], value: str, param: click.Parameter) -> int:
    try:
        return read(value)
    except ValueError as exc:
        raise click.BadParameter(f"{value!r}: {exc}.", param=param) from exc


def _amount(text: str, units: Mapping[str, int], expected: str) -> int:
    match = _AMOUNT.fullmatch(text.strip())
    unit = None if match is None else units.get(match[2])
    if match is None or unit is None:
        raise _Unreadable(expected)
    amount = int(Decimal(match[1]) * unit)
    if amount <= 0:
        raise _Unreadable(f"it must be more than nothing; {expected}")
    return amount
