"""Values as documents have them: amounts that are raw, whole or null, and names fit for a page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tfprobe.analysis.core.statistics import SampleCurve, sampling_gaps
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
    return curve(fact) if isinstance(fact, SampleCurve) else fact


def curve(found: SampleCurve) -> Document:
    """Return an amount over time; a null begins a time without samples."""
    at_ns = np.array([point.at_ns for point in found.points], dtype=np.int64)
    last, begin_ns = sampling_gaps(at_ns)
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


# What a page shows of a name. Nobody reads on, and ten thousand such are still a small document.
SHOWN_CHARACTERS = 200
# Longer than any path of scopes that a person made; an address of more is of no use.
PATH_CHARACTERS = 1000


def shown_name(name: str, most: int = SHOWN_CHARACTERS) -> str:
    """Return a name, cut in its middle where it is too long: its end tells most."""
    if len(name) > most:
        end = most // 2
        name = f"{name[: most - end - 1]}…{name[-end:]}"
    # Half a character, which JSON may hold and UTF-8 may not.
    return name.encode("utf-8", "replace").decode("utf-8")


def is_whole_name(name: str) -> bool:
    """Say whether a page shows a name as it is, so that it may ask for it again."""
    return shown_name(name) == name


def address(path: str) -> str | None:
    """Return a path that a page may ask for, None where it is no text or too long for that."""
    return path if shown_name(path, PATH_CHARACTERS) == path else None
