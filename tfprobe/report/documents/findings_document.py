"""Write findings as documents: times in ns, gains also as ratios of the loop's time."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from tfprobe.analysis.compare.trials import Interval
from tfprobe.errors import Missing
from tfprobe.findings.finding import Evidence, Finding, Gain, Subject
from tfprobe.report.documents.document import Document

if TYPE_CHECKING:
    # The engine imports every rule; a report without findings should not wait for that.
    from tfprobe.findings.engine import Advice


def advice_document(advice: Advice) -> Document:
    """Return all findings, what they gain together, and the rules that could not be applied."""
    return {
        "findings": [finding_document(finding) for finding in advice.findings],
        "together": gain_document(advice.together),
        "unchecked": [{"rule": rule.rule, "reason": rule.reason} for rule in advice.unchecked],
    }


def finding_document(finding: Finding) -> Document:
    """Return one finding."""
    return {
        "rule": finding.rule,
        "severity": finding.severity.name.lower(),
        "title": finding.title,
        "evidence": [_evidence(evidence) for evidence in finding.evidence],
        "action": finding.action,
        "gain": gain_document(finding.gain),
        "part": finding.part,
        "subject": _set_fields(finding.subject),
        "fixes": list(finding.fixes),
        "measured": [
            {
                "fix": one.fix,
                "verdict": one.verdict.value,
                "gain_ratio": one.ratio,
                "low_ratio": one.low_ratio,
                "high_ratio": one.high_ratio,
                "cpu": None if one.cpu is None else _cpu(one.cpu),
            }
            for one in finding.measured
        ],
    }


def _cpu(gain: Interval) -> Document:
    return {
        "gain_ratio": gain.ratio,
        "low_ratio": gain.low_ratio,
        "high_ratio": gain.high_ratio,
    }


def gain_document(gain: Gain | Missing) -> Document:
    """Return a gain; where there is none, why."""
    names = ("low_ratio", "high_ratio", "low_ns", "high_ns", "of_ns")
    if isinstance(gain, Missing):
        # None, so that every gain has the same keys.
        return {**dict.fromkeys(names), "missing": gain.reason}
    return {name: getattr(gain, name) for name in names}


def _evidence(evidence: Evidence) -> Document:
    shown = _set_fields(evidence)
    if "time_ns" in shown:
        # Published documents have the time behind the rest.
        shown["time_ns"] = shown.pop("time_ns")
    return shown


def _set_fields(record: Evidence | Subject) -> Document:
    pairs = ((field.name, getattr(record, field.name)) for field in fields(record))
    return {name: value for name, value in pairs if value not in (None, "", ())}
