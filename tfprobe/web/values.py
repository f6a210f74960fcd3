"""Values as documents have them: amounts that are raw, whole or null, and names fit for a page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tfprobe.analysis.core.statistics import SampleCurve, sampling_gaps
from tfprobe.report.documents.document import Document, known, reasons
from tfprobe.report.documents.tiers import curve_document


def facts(values: Mapping[str, object]) -> Document:
    """Return facts with null for what is not known; `missing` says why, where anything is not."""
    shown = {
        name: curve(value) if isinstance(value, SampleCurve) else known(value)
        for name, value in values.items()
    }
    missing = reasons(values)
    return {**shown, "missing": missing} if missing else shown


def whole(values: np.ndarray[Any, Any]) -> list[int]:
    """Return a column of whole numbers."""
    column: list[int] = values.astype(np.int64).tolist()
    return column


def curve(measured: SampleCurve) -> Document:
    """Return an amount over time; a null begins a time without samples."""
    at_ns = np.array([point.at_ns for point in measured.points], dtype=np.int64)
    last, begin_ns = sampling_gaps(at_ns)
    document = curve_document(measured)
    values: list[float | None] = document["values"]
    for place in reversed(last.tolist()):
        values.insert(place + 1, None)
    return {**document, "at_unix_ns": np.insert(at_ns, last + 1, begin_ns).tolist()}


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


# Of texts that may hold a name of any length.
TEXT_CHARACTERS = 500


def shortened(value: Any, most: int = TEXT_CHARACTERS) -> Any:
    """Return a part of a document with no text in it longer than `most`. Any: JSON values."""
    if isinstance(value, dict):
        return {name: shortened(part, most) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [shortened(part, most) for part in value]
    return value[:most] if isinstance(value, str) else value


def is_whole_name(name: str) -> bool:
    """Say whether a page shows a name as it is, so that it may ask for it again."""
    return shown_name(name) == name


def address(path: str) -> str | None:
    """Return a path that a page may ask for, None where it is no text or too long for that."""
    return path if shown_name(path, PATH_CHARACTERS) == path else None
