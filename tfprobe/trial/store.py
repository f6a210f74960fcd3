"""Keep the documents of trials beside the runs, and find those of a command again."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfprobe.analysis.compare.trials import Verdict
from tfprobe.findings.finding import MeasuredGain
from tfprobe.launch.prepare import command_name, run_id
from tfprobe.runs import agent_files, safe_files
from tfprobe.runs.layout import TRIALS, children

if TYPE_CHECKING:
    # The engine imports every rule.
    from tfprobe.findings.engine import Advice

_MOST_BYTES = 4 << 20


def save(document: Mapping[str, Any], output: Path, now_ns: int) -> Path:
    """Write a trial's document below the directory of all runs; return its path. Raises OSError."""
    folder = output / TRIALS
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    masked = {**document, "command": agent_files.mask_arguments(document["command"])}
    path = folder / f"{run_id(command_name(masked['command']), now_ns)}.json"
    with safe_files.replacing(path) as file:
        file.write((json.dumps(masked, indent=1) + "\n").encode())
    return path


def with_measured(advice: Advice, command: Sequence[str], output: Path) -> Advice:
    """Return the advice with what trials of the same command found of its fixes."""
    newest: dict[str, MeasuredGain] = {}
    for document in trials_of(command, output):
        for measured in _measured(document):
            newest.setdefault(measured.fix.partition("=")[0], measured)
    if not newest:
        return advice
    findings = (
        replace(finding, measured=tuple(newest[fix] for fix in finding.fixes if fix in newest))
        for finding in advice.findings
    )
    return replace(advice, findings=tuple(findings))


def _measured(document: Mapping[str, Any]) -> Iterator[MeasuredGain]:
    """Yield what a document says of single fixes; Any: a JSON document, perhaps damaged."""
    fixes = document.get("fixes")
    for fix in fixes if isinstance(fixes, list) else ():
        try:
            ratios = [float(fix[name]) for name in ("gain_ratio", "low_ratio", "high_ratio")]
            yield MeasuredGain(str(fix["fix"]), Verdict(fix["verdict"]), *ratios)
        except (KeyError, TypeError, ValueError):
            continue  # nothing was measured


def trials_of(command: Sequence[str], output: Path) -> Iterator[dict[str, Any]]:
    """Yield the documents of trials of a command, the newest first; what is damaged is left out."""
    wanted = list(command)
    for path in reversed(children(output / TRIALS)):
        if path.suffix != ".json":
            continue
        try:
            with path.open("rb") as file:
                document = json.loads(file.read(_MOST_BYTES))
        except (OSError, ValueError):
            continue
        if isinstance(document, dict) and document.get("command") == wanted:
            yield document
