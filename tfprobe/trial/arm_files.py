"""What an arm left in its process folder: marks, notes of fixes, weights (run-directory.md)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tfprobe.analysis.compare.trials import Marks, Weights
from tfprobe.errors import Missing
from tfprobe.findings.trials import AppliedFix
from tfprobe.runs.layout import ProcessFolder, RunFolder

# Far above what a trial writes, far below what would fill the memory.
_MOST_BYTES = 256 << 20
_COLUMNS = ("mono_ns", "cpu_ns", "units")


@dataclass(frozen=True, slots=True)
class ArmFiles:
    """What one process of an arm left. `start_mono_ns` is when its interpreter started."""

    unit: tuple[str, str]
    start_mono_ns: int
    marks: Marks
    # Why it ended: "units", "seconds", "ended" by itself, "" if it was ended from outside.
    stopped: str
    fixes: Mapping[str, AppliedFix]
    weights: Weights | Missing
    errors: tuple[str, ...]

    @property
    def unit_s(self) -> float:
        """The mean time of a unit from the first mark to the last, in s; 0.0 with one mark."""
        marks = self.marks
        done = int(marks.units[-1] - marks.units[0])
        return float(marks.mono_ns[-1] - marks.mono_ns[0]) / 1e9 / done if done else 0.0


def read_arm(run: RunFolder) -> ArmFiles | Missing:
    """Return what the process with most units left; Missing if none of them counted any."""
    found = [files for folder in run.processes() if (files := _read_process(folder)) is not None]
    if not found:
        return Missing("no process of the job ran a step")
    return max(found, key=lambda files: int(files.marks.units[-1]))


def _read_process(folder: ProcessFolder) -> ArmFiles | None:
    lines = list(_lines(folder.trial))
    # The unit may become another one while the job warms up: what counts is behind the last head.
    heads = [at for at, line in enumerate(lines) if "unit" in line]
    lines = lines[heads[-1] :] if heads else []
    rows = [line for line in lines if all(isinstance(line.get(name), int) for name in _COLUMNS)]
    if not rows:
        return None
    columns = (np.array([row[name] for row in rows], dtype=np.int64) for name in _COLUMNS)
    head = lines[0]
    unit = head.get("unit") or {}
    events = list(_lines(folder.events))
    return ArmFiles(
        unit=(str(unit.get("kind") or ""), str(unit.get("name") or "")),
        start_mono_ns=int(head.get("started_mono_ns") or rows[0]["mono_ns"]),
        marks=Marks(*columns),
        stopped=next((str(line["stopped"]) for line in lines if "stopped" in line), ""),
        fixes=_fixes(events),
        weights=_weights(folder),
        errors=tuple(
            f"{event.get('where')}: {event.get('what')}"
            for event in events
            if event.get("event") == "error"
        ),
    )


def _fixes(events: Sequence[Mapping[str, Any]]) -> dict[str, AppliedFix]:
    """Return the last note of each fix."""
    found = {}
    for event in events:
        if event.get("event") == "fix":
            file, line = event.get("file"), event.get("line")
            skipped, error = event.get("skipped"), event.get("error")
            reasons = dict(skipped) if isinstance(skipped, dict) else {}
            if isinstance(error, str):
                reasons[error] = 1
            found[str(event.get("fix"))] = AppliedFix(
                int(event.get("applied") or 0),
                reasons,
                f"{file}:{line}" if file and line else "",
            )
    return found


def _weights(folder: ProcessFolder) -> Weights | Missing:
    try:
        document = json.loads(folder.weights.read_bytes())
        if "missing" in document:
            return Missing(str(document["missing"]))
        unit = int(document["unit"])
        digests = tuple(str(one["sha1"]) for one in document["arrays"])
    except FileNotFoundError:
        return Missing("the job ended before its weights were written")
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return Missing("the file of weights cannot be read")
    if not digests:
        return Missing("no weights were found")
    return Weights(unit, digests, _values(folder) if document.get("ordered", True) else None)


def _values(folder: ProcessFolder) -> npt.NDArray[np.float64] | None:
    """Return all weights as one array; None if they were too large to be kept."""
    try:
        return np.fromfile(folder.weight_values, dtype="<f8")
    except OSError:
        return None


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of a file of lines; an unfinished last line is left out."""
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES)
    except OSError:
        return
    for line in content.split(b"\n")[:-1]:
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict):
            yield found
