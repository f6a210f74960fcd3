"""Read files of lines that a process appends to: whole lines only, whatever ended it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# Any: whatever JSON value the agent wrote.
Json = Mapping[str, Any]


def whole_lines(path: Path) -> list[bytes]:
    """Return the finished lines of a file; none where it is absent or not ours to read."""
    try:
        content = path.read_bytes()
    except OSError:
        return []
    # Whatever follows the last newline is a line the writer has not finished.
    return [line for line in content.split(b"\n")[:-1] if line.strip()]


def object_of(line: bytes) -> Json | None:
    """Return the JSON object that a line is; None of one that is not."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def integer(fields: Json, key: str) -> int | None:
    """Return a whole number that fits 64 bits, as every time and count of ours does."""
    value = fields.get(key)
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if abs(value) < 1 << 63 else None


def number(fields: Json, key: str) -> float | None:
    """Return a number that is one: neither infinite nor NaN."""
    value = fields.get(key)
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    return float(value) if abs(value) < 1e300 else None


def text(fields: Json, key: str) -> str | None:
    """Return a text."""
    value = fields.get(key)
    return value if isinstance(value, str) else None
