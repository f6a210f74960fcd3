"""What an arm left in its process folder: marks, notes of fixes, weights (run-directory.md)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tfprobe.analysis.compare.delays import DelayMarks
from tfprobe.analysis.compare.trials import Losses, Marks, Weights
from tfprobe.errors import Missing
from tfprobe.findings.trials import AppliedFix
from tfprobe.runs.layout import ProcessFolder, RunFolder
from tfprobe.runs.process_folder.jsonl import Json, integer, object_of, text, whole_lines

_COLUMNS = ("mono_ns", "cpu_ns", "units")
_DELAY_COLUMNS = ("mono_ns", "part_ns", "delay_ns")


_NO_LOSSES = Missing("the job ended before its losses were written")


@dataclass(frozen=True, slots=True)
class ArmFiles:
    """What one process of an arm left. `start_mono_ns` is when its interpreter started.

    `delays` are of all processes of the arm, by part: workers may do what is slowed down.
    """

    unit: tuple[str, str]
    start_mono_ns: int
    marks: Marks
    fixes: Mapping[str, AppliedFix]
    weights: Weights | Missing
    losses: Losses | Missing = _NO_LOSSES
    delays: Mapping[str, tuple[DelayMarks, ...]] = field(default_factory=dict)

    @property
    def unit_s(self) -> float:
        """The mean time of a unit from the first mark to the last, in s; 0.0 with one mark."""
        marks = self.marks
        done = int(marks.units[-1] - marks.units[0])
        return float(marks.mono_ns[-1] - marks.mono_ns[0]) / 1e9 / done if done else 0.0


def read_arm(run: RunFolder) -> ArmFiles | Missing:
    """Return what the process with most units left; Missing if none of them counted any."""
    folders = run.processes()
    found = [files for folder in folders if (files := _read_process(folder)) is not None]
    if not found:
        return Missing("no process of the job ran a step")
    most = max(found, key=lambda files: int(files.marks.units[-1]))
    return replace(most, delays=_delays(folders))


def _read_process(folder: ProcessFolder) -> ArmFiles | None:
    lines = _objects(folder.trial)
    # The unit may become another one while the job warms up: what counts is behind the last head.
    heads = [at for at, line in enumerate(lines) if "unit" in line]
    lines = lines[heads[-1] :] if heads else []
    rows = [line for line in lines if all(integer(line, name) is not None for name in _COLUMNS)]
    if not rows:
        return None
    columns = (np.array([row[name] for row in rows], dtype=np.int64) for name in _COLUMNS)
    head = lines[0]
    unit = head["unit"] if isinstance(head["unit"], dict) else {}
    return ArmFiles(
        unit=(text(unit, "kind") or "", text(unit, "name") or ""),
        start_mono_ns=integer(head, "started_mono_ns") or int(rows[0]["mono_ns"]),
        marks=Marks(*columns),
        fixes=_fixes(_objects(folder.events)),
        weights=_weights(folder),
        losses=_losses(folder),
    )


def _delays(folders: Sequence[ProcessFolder]) -> dict[str, tuple[DelayMarks, ...]]:
    """Return what was slowed down in each process, by part."""
    found: dict[str, tuple[DelayMarks, ...]] = {}
    for folder in folders:
        rows_of: dict[str, list[Json]] = {}
        for line in _objects(folder.delays):
            if all(integer(line, name) is not None for name in _DELAY_COLUMNS):
                rows_of.setdefault(text(line, "part") or "", []).append(line)
        for part, rows in rows_of.items():
            columns = (np.array([row[name] for row in rows], np.int64) for name in _DELAY_COLUMNS)
            found[part] = (*found.get(part, ()), DelayMarks(*columns))
    return found


def _objects(path: Path) -> list[Json]:
    return [found for line in whole_lines(path) if (found := object_of(line)) is not None]


def _fixes(events: Sequence[Json]) -> dict[str, AppliedFix]:
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
                integer(event, "applied") or 0,
                reasons,
                f"{file}:{line}" if file and line else "",
            )
    return found


def _losses(folder: ProcessFolder) -> Losses | Missing:
    try:
        document = json.loads(folder.losses.read_bytes())
        if "missing" in document:
            return Missing(str(document["missing"]))
        of_unit = {int(unit): float(value) for unit, value in document["losses"]}
    except FileNotFoundError:
        return _NO_LOSSES
    except (OSError, ValueError, TypeError, KeyError):
        return Missing("the file of losses cannot be read")
    return Losses(of_unit) if of_unit else Missing("no losses were found")


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
