"""Amounts as documents have them: raw, whole where that loses nothing, null where not known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tfprobe.analysis.core.series import Curve, silences
from tfprobe.errors import Missing

# Any: JSON values.
Document = dict[str, Any]


def known(value: object) -> Any:
    """Return a value, None where it is Missing. Any: a JSON value, as it was."""
    return None if isinstance(value, Missing) else value


def facts(given: Mapping[str, object]) -> Document:
    """Return facts with null for what is not known; `missing` says why, by their names."""
    reasons = {name: fact.reason for name, fact in given.items() if isinstance(fact, Missing)}
    told = {name: _told(fact) for name, fact in given.items()}
    return {**told, "missing": reasons} if reasons else told


def whole(values: np.ndarray[Any, Any]) -> list[int]:
    """Return a column of whole numbers."""
    column: list[int] = values.astype(np.int64).tolist()
    return column


def _told(fact: object) -> object:
    if isinstance(fact, Missing):
        return None
    return curve(fact) if isinstance(fact, Curve) else fact


def curve(found: Curve) -> Document:
    """Return an amount over time; a null begins a time without samples."""
    at_ns = np.array([point.at_ns for point in found.points], dtype=np.int64)
    last, begin_ns = silences(at_ns)
    # Six digits are more than any sample is good for, and halve the document.
    values: list[float | None] = [float(f"{point.value:.6g}") for point in found.points]
    for place in reversed(last.tolist()):
        values.insert(place + 1, None)
    return {
        "mean": found.mean,
        "p95": found.p95,
        "min": found.min,
        "max": found.max,
        "last": found.last,
        "at_unix_ns": np.insert(at_ns, last + 1, begin_ns).tolist(),
        "values": values,
    }
