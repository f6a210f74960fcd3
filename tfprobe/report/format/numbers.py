"""Write numbers with units, three significant digits, for columns aligned right."""

from __future__ import annotations

_TIME_UNITS: tuple[tuple[str, float], ...] = (("s", 1e9), ("ms", 1e6), ("µs", 1e3))
_BYTE_UNITS: tuple[tuple[str, float], ...] = (
    ("TiB", 2**40),
    ("GiB", 2**30),
    ("MiB", 2**20),
    ("KiB", 2**10),
)
_FLOP_UNITS: tuple[tuple[str, float], ...] = (
    ("PFLOP", 1e15),
    ("TFLOP", 1e12),
    ("GFLOP", 1e9),
    ("MFLOP", 1e6),
    ("kFLOP", 1e3),
)
_RATE_UNITS: tuple[tuple[str, float], ...] = (
    ("TB/s", 1e12),
    ("GB/s", 1e9),
    ("MB/s", 1e6),
    ("kB/s", 1e3),
)
_AGE_UNITS: tuple[tuple[str, int], ...] = (("d", 86_400), ("h", 3_600), ("min", 60))
# Stands where there is no number to show.
NOTHING = "–"
_SECONDS_A_MINUTE = 60
_MINUTES_AN_HOUR = 60
# From here on seconds are harder to read than minutes.
_LONG_S = 600


def duration(time_ns: float) -> str:
    """Write a time: 1.23 ms, 45.6 s, 12 min 5 s, 3 h 4 min."""
    for unit, size_ns in _TIME_UNITS:
        if unit == "s" and time_ns >= _LONG_S * size_ns:
            return _long(round(time_ns / size_ns))
        # Half a last digit below the unit already rounds up to it.
        if time_ns >= size_ns * 0.9995:
            return f"{_three(time_ns / size_ns)} {unit}"
    return f"{time_ns:.0f} ns"


def age(age_ns: int) -> str:
    """Write how long ago something was, in one unit: now, 45 s, 12 min, 3 h, 10 d."""
    seconds = age_ns // 1_000_000_000
    for unit, unit_s in _AGE_UNITS:
        # Two of a unit tell more than one of the next: 90 min, 36 h.
        if seconds >= 2 * unit_s:
            return f"{seconds // unit_s} {unit}"
    return f"{seconds} s" if seconds else "now"


def size(size_bytes: int) -> str:
    """Write a size in binary units: 512 B, 1.50 MiB."""
    for unit, unit_bytes in _BYTE_UNITS:
        if size_bytes >= unit_bytes * 0.9995:
            return f"{_three(size_bytes / unit_bytes)} {unit}"
    return f"{size_bytes} B"


def rate(bytes_per_s: float) -> str:
    """Write bytes a second, in the decimal units of buses and networks: 11.2 GB/s."""
    for unit, unit_bytes in _RATE_UNITS:
        if bytes_per_s >= unit_bytes * 0.9995:
            return f"{_three(bytes_per_s / unit_bytes)} {unit}"
    return f"{bytes_per_s:.0f} B/s"


def flops(amount: int) -> str:
    """Write float operations in decimal units: 12 FLOP, 1.23 GFLOP."""
    for unit, size in _FLOP_UNITS:
        if amount >= size * 0.9995:
            return f"{_three(amount / size)} {unit}"
    return f"{amount} FLOP"


def count(value: int) -> str:
    """Write a count with thousands separated."""
    return f"{value:,}"


def ordinal(value: int) -> str:
    """Write a place in an order: 1st, 2nd, 1,003rd, 11th."""
    teens = value % 100 in (11, 12, 13)
    ending = "th" if teens else {1: "st", 2: "nd", 3: "rd"}.get(value % 10, "th")
    return f"{count(value)}{ending}"


def percent(ratio: float) -> str:
    """Write a ratio: 0.1 %, 12.3 %; what is not nothing is never written as 0."""
    if 0 < ratio < 0.001:
        return "<0.1 %"
    return f"{ratio * 100:.1f} %"


def _three(value: float) -> str:
    if value >= 99.95:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"


def _long(seconds: int) -> str:
    minutes, seconds = divmod(seconds, _SECONDS_A_MINUTE)
    if minutes < _MINUTES_AN_HOUR:
        return f"{minutes} min {seconds} s"
    hours, minutes = divmod(minutes, _MINUTES_AN_HOUR)
    return f"{hours} h {minutes} min"
