"""Documents of trials (`tfprobe try`), which lie beside the runs: those of a command, and all.

They are read as JSON and not judged. Links are not followed: a directory of runs may be shared.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tfprobe.errors import Missing
from tfprobe.runs import safe_files
from tfprobe.runs.layout import TRIALS, children

_SUFFIX = ".json"
# Three orders of magnitude above a trial of all fixes.
_MOST_BYTES = 4 << 20


def trials_of(command: Sequence[str] | Missing, output: Path) -> Iterator[dict[str, Any]]:
    """Yield the documents of trials of a command, the newest first.

    `output` is the directory of all runs. What is damaged is left out. Any: JSON.
    """
    if isinstance(command, Missing):
        return
    wanted = list(command)
    for name in trial_ids(output):
        document = trial_document_of(name, output)
        if not isinstance(document, Missing) and document.get("command") == wanted:
            yield document


def trial_ids(output: Path) -> tuple[str, ...]:
    """Return the ids of all trials, the newest first: they begin with the time of their start."""
    paths = reversed(children(output / TRIALS))
    return tuple(path.stem for path in paths if path.suffix == _SUFFIX)


def trial_document_of(trial: str, output: Path) -> dict[str, Any] | Missing:
    """Return the document of a trial by an id of `trial_ids`; Missing says why it is unreadable."""
    path = output / TRIALS / f"{trial}{_SUFFIX}"
    try:
        content = safe_files.content(output, path, most_bytes=_MOST_BYTES)
    except OSError as exc:
        return Missing(f"it cannot be read: {exc.strerror}")
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        return Missing("it is no JSON")
    return document if isinstance(document, dict) else Missing("it is no JSON object")
