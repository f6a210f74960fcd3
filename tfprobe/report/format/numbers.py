"""Write numbers for people: with units, in three significant digits.

The rules are data, `number_rules.json`, which the pages share (`web/static/parts/amounts.js`): a
number reads the same in a terminal, in Markdown and on a page. docs/report.md states them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

# Any: JSON values.
_RULES: dict[str, Any] = json.loads(
    Path(__file__).with_name("number_rules.json").read_text(encoding="utf-8")
)
# Factor and name, the largest first.
_Units = Sequence[tuple[int, str]]
_TIME_UNITS: _Units = _RULES["time_units"]
_BYTE_UNITS: _Units = _RULES["byte_units"]
_DECIMAL_PREFIXES: _Units = _RULES["decimal_prefixes"]
# The least number that is written with so many decimals, the largest first.
_Decimals = Sequence[tuple[float, int]]
_DECIMALS_FROM: _Decimals = _RULES["decimals_from"]
_PERCENT_DECIMALS_FROM: _Decimals = _RULES["percent_decimals_from"]
_WHOLE: _Decimals = ((0, 0),)
_LEAST: float = _RULES["least"]
_LEAST_PERCENT: float = _RULES["least_percent"]
# Half a last digit below a unit already rounds up to it.
_UNIT_FROM: float = _RULES["unit_from"]
_MINUS: str = _RULES["minus"]
_THOUSANDS: str = _RULES["thousands"]
# From here on seconds are harder to read than minutes.
_MINUTES_FROM_NS: int = _RULES["minutes_from_ns"]
# Stands where there is no number to show.
NOTHING: str = _RULES["nothing"]

_AGE_UNITS: tuple[tuple[str, int], ...] = (("d", 86_400), ("h", 3_600), ("min", 60))
_NS_PER_S = 1_000_000_000
_SECONDS_PER_MINUTE = 60
_MINUTES_PER_HOUR = 60


def duration(time_ns: float) -> str:
    """Write a time: 1.23 ms, 45.6 s, 12 min 5 s, 3 h 4 min."""
    if math.isfinite(time_ns) and abs(time_ns) >= _MINUTES_FROM_NS:
        return f"{_sign(time_ns)}{_minutes(_rounded(abs(time_ns) / _NS_PER_S))}"
    return _scaled(time_ns, _TIME_UNITS)


def age(age_ns: int) -> str:
    """Write how long ago something was, in one unit: now, 45 s, 12 min, 3 h, 10 d."""
    seconds = age_ns // _NS_PER_S
    for unit, unit_s in _AGE_UNITS:
        # Two of a unit tell more than one of the next: 90 min, 36 h.
        if seconds >= 2 * unit_s:
            return f"{seconds // unit_s} {unit}"
    return f"{seconds} s" if seconds else "now"


def size(size_bytes: float) -> str:
    """Write a size in binary units: 512 B, 1.50 MiB."""
    return _scaled(size_bytes, _BYTE_UNITS)


def rate(bytes_per_s: float) -> str:
    """Write bytes per second, in the decimal units of buses and networks: 11.2 GB/s."""
    return large(bytes_per_s, "B/s")


def flops(amount: float) -> str:
    """Write floating-point operations: 12 FLOP, 1.23 GFLOP."""
    return large(amount, "FLOP")


def large(amount: float, unit: str = "") -> str:
    """Write an amount with a decimal prefix: 1.23 M, 1.23 GFLOP."""
    return _scaled(amount, _DECIMAL_PREFIXES, unit)


def count(value: float) -> str:
    """Write a count in full, with thousands separated."""
    return f"{_sign(value)}{_fixed(abs(value), _WHOLE)}" if math.isfinite(value) else NOTHING


def ordinal(value: int) -> str:
    """Write a place in an order: 1st, 2nd, 1,003rd, 11th."""
    teens = value % 100 in (11, 12, 13)
    ending = "th" if teens else {1: "st", 2: "nd", 3: "rd"}.get(value % 10, "th")
    return f"{count(value)}{ending}"


def digits(value: float) -> str:
    """Write a number in three digits, for a column of its like: 0.20, 2.00, 12.3, 1,234."""
    if not math.isfinite(value):
        return NOTHING
    if 0 < abs(value) < _LEAST / 2:
        return _below(value, f"{_LEAST:g}")
    if value == 0:
        return "0"
    return f"{_sign(value)}{_fixed(abs(value), _DECIMALS_FROM)}"


def plain(value: float) -> str:
    """Write a number in three digits without zeros at its end, for a sentence: 0.2, 2, 12.3."""
    text = digits(value)
    return text.rstrip("0").rstrip(".") if "." in text else text


def percent(ratio: float) -> str:
    """Write a ratio: 0.1 %, 12.3 %; only nothing is written as 0."""
    if not math.isfinite(ratio):
        return NOTHING
    per_cent = 100 * ratio
    if 0 < abs(per_cent) < _LEAST_PERCENT:
        return _below(ratio, f"{_LEAST_PERCENT:g} %")
    return f"{_sign(ratio)}{_fixed(abs(per_cent), _PERCENT_DECIMALS_FROM)} %"


def signed_percent(ratio: float) -> str:
    """Write a change with its sign: +1.2 %, −0.3 %, +0.0 %."""
    if not math.isfinite(ratio):
        return NOTHING
    return f"{_sign(ratio) or '+'}{_fixed(abs(100 * ratio), _PERCENT_DECIMALS_FROM)} %"


def gain(ratio: float, low_ratio: float, high_ratio: float) -> str:
    """Write a gain with its confidence interval, in percent: `+83.0 % [77, 88]`."""
    low, high = (count(round(100 * bound)) for bound in (low_ratio, high_ratio))
    return f"{signed_percent(ratio)} [{low}, {high}]"


def _scaled(value: float, units: _Units, of: str = "") -> str:
    if not math.isfinite(value):
        return NOTHING
    factor, unit = next(
        (unit for unit in units if abs(value) >= unit[0] * _UNIT_FROM),
        units[-1],
    )
    # A whole number of the smallest unit is exact, and needs no decimals.
    is_exact = factor == 1 and value == math.floor(value)
    number = count(value) if is_exact else digits(value / factor)
    return f"{number} {unit}{of}".rstrip()


def _minutes(seconds: int) -> str:
    minutes, seconds = divmod(seconds, _SECONDS_PER_MINUTE)
    if minutes < _MINUTES_PER_HOUR:
        return f"{minutes} min {seconds} s"
    hours, minutes = divmod(minutes, _MINUTES_PER_HOUR)
    return f"{count(hours)} h {minutes} min"


def _fixed(value: float, decimals_from: _Decimals) -> str:
    decimals = next(decimals for least, decimals in decimals_from if value >= least)
    whole, fraction = divmod(_rounded(value * 10**decimals), 10**decimals)
    text = f"{whole:,}".replace(",", _THOUSANDS)
    return f"{text}.{fraction:0{decimals}}" if decimals else text


def _rounded(value: float) -> int:
    """Round half up, as JavaScript does; Python's `round` and formats go to the even neighbour."""
    return value if isinstance(value, int) else math.floor(value + 0.5)


def _sign(value: float) -> str:
    return _MINUS if value < 0 else ""


def _below(value: float, least: str) -> str:
    return f"<{least}" if value > 0 else f">{_MINUS}{least}"
