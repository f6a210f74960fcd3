"""What all documents share: null with a reason for what is not known, and the published form.

Times in a document are in ns. `published` makes of it what `--json` prints, with times in µs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from tfprobe.errors import Missing

# Any: a JSON document, whose values are whatever the schema says.
Document = dict[str, Any]


def known(value: Any) -> Any:
    """Return a value, None where it is Missing. Any: a JSON value, as it was."""
    return None if isinstance(value, Missing) else value


def reasons(values: Mapping[str, object]) -> dict[str, str]:
    """Return why values are not known, by the names of those that are not."""
    return {name: value.reason for name, value in values.items() if isinstance(value, Missing)}


def with_reasons(values: Mapping[str, object]) -> Document:
    """Return values with null for what is not known, and the reasons as `missing`."""
    return {name: known(value) for name, value in values.items()} | {"missing": reasons(values)}


_NS = re.compile(r"(^|_)ns(?=$|_per_)")


def published(document: Document) -> Document:
    """Return the published form of a document.

    A key that ends in `ns` ends in `us` instead, and its value (a number, a list of them, or
    numbers by name) is divided by 1000. `_FIELDS` lists what differs, by schema.
    """
    shown: Document = _projected(document, _FIELDS.get(document.get("schema", ""), {}))
    return shown


# Any: a JSON value.
Scale = Callable[[Any], Any]
# A name in the document -> its published name, and what makes its published value.
Fields = Mapping[str, tuple[str, Scale]]


def _us(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _us(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_us(part) for part in value]
    return value / 1000 if isinstance(value, (int, float)) else value


def _same(value: Any) -> Any:
    return value


_RATIOS: Fields = {
    "change_ratio": ("change", _same),
    "high_ratio": ("high", _same),
    "is_significant": ("significant", _same),
    "least_ratio": ("least_change", _same),
    "low_ratio": ("low", _same),
}
_FIELDS: Mapping[str, Fields] = {
    "tfprobe.advise/1": _RATIOS,
    "tfprobe.diff/1": {**_RATIOS, "a_bytes": ("a", _same), "b_bytes": ("b", _same)},
    "tfprobe.diff-runs/1": _RATIOS,
    "tfprobe.ranks/1": {"at_unix_ns": ("at_unix_ns", _same)},
    "tfprobe.report/1": _RATIOS,
    "tfprobe.steps/1": {
        **_RATIOS,
        "share_ratio": ("share", _same),
        "start_unix_ns": ("start_unix_ns", _same),
        "histogram_ns": (
            "histogram",
            lambda bars: [
                [low_ns / 1000, high_ns / 1000, count] for low_ns, high_ns, count in bars
            ],
        ),
        "phases_ns": ("phases", _us),
    },
    "tfprobe.tiers/1": {
        "at_unix_ns": ("at_unix_us", lambda column: [at_ns // 1000 for at_ns in column]),
    },
}


def _projected(value: Any, fields: Fields) -> Any:  # Any: a JSON value, and what is made of it
    if isinstance(value, list):
        # Columns of numbers are long, and nothing in them has a name.
        is_flat = not value or not isinstance(value[0], (dict, list))
        return value if is_flat else [_projected(item, fields) for item in value]
    if not isinstance(value, dict):
        return value
    shown: Document = {}
    for name, part in value.items():
        if name in fields:
            published_name, scale = fields[name]
            shown[published_name] = scale(part)
        elif _NS.search(name):
            shown[_NS.sub(r"\1us", name)] = _us(part)
        else:
            shown[name] = _projected(part, fields)
    return shown
