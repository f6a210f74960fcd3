"""What of a run costs time that could be won, and where each piece of evidence is seen."""

from __future__ import annotations

from tfprobe.errors import Missing
from tfprobe.findings import engine
from tfprobe.findings.engine import Advice
from tfprobe.findings.finding import Evidence, Finding, Gain, Severity
from tfprobe.profile.graph import TracedLoop
from tfprobe.web.evidence import EvidencePlaces, told
from tfprobe.web.opened import OpenRun
from tfprobe.web.params import Params
from tfprobe.web.values import Document

# As many as `tfprobe report` shows: of those that matter the first.
TOP_FINDINGS = 3
# Names of nodes and scopes may be as long as somebody wants.
_TEXT_CHARACTERS = 1_000


def document(run: OpenRun, question: Params) -> Document:  # noqa: ARG001 - all have these
    """Return all findings, the most important first, and the rules that had nothing to go by."""
    return run.made("findings", lambda: _document(run))


def _document(run: OpenRun) -> Document:
    advice = engine.advise(run.profile, _dearest(run))
    places = EvidencePlaces(run.profile)
    matter = [each for each in advice.findings if each.severity > Severity.INFO]
    return {
        "findings": [_finding(each, places) for each in advice.findings],
        "top": [advice.findings.index(each) for each in matter[:TOP_FINDINGS]],
        "together": _gain(advice.together),
        "unchecked": [{"rule": each.rule, "reason": each.reason} for each in advice.unchecked],
        "missing": _lacking(run, advice),
    }


def _dearest(run: OpenRun) -> tuple[TracedLoop, ...]:
    """Return the sampled work with most time, with its graph and code map; none if none was."""
    for work in run.works():
        found = run.sampled(work)
        if isinstance(found, TracedLoop):
            return (found,)
    return ()


def _lacking(run: OpenRun, advice: Advice) -> str | None:
    """Return why there is little to say, where that is so."""
    if not any(work.executed for work in run.profile.works):
        return "no step has been recorded"
    if not run.profile.captures and advice.unchecked:
        return "no step was sampled: only step times and the machine could be looked at"
    return None


def _finding(finding: Finding, places: EvidencePlaces) -> Document:
    work = places.work(finding.subject)
    subject = finding.subject
    return {
        "rule": finding.rule,
        "severity": finding.severity.name.lower(),
        "title": finding.title[:_TEXT_CHARACTERS],
        "action": [{"text": text, "is_code": is_code} for text, is_code in told(finding.action)],
        "gain": _gain(finding.gain),
        "part": finding.part,
        "work": work,
        "subject": {
            "host": subject.host or None,
            "pid": subject.pid,
            "rank": subject.rank,
            "program": subject.program or None,
            "kind": subject.kind or None,
            "name": subject.name[:_TEXT_CHARACTERS] or None,
        },
        "evidence": [_evidence(each, places, work) for each in finding.evidence],
    }


def _gain(gain: Gain | Missing) -> Document:
    if isinstance(gain, Missing):
        return {"missing": gain.reason}
    return {
        "low_ns": gain.low_ns,
        "high_ns": gain.high_ns,
        "of_ns": gain.of_ns,
        "low_ratio": gain.low_ratio,
        "high_ratio": gain.high_ratio,
    }


def _evidence(each: Evidence, places: EvidencePlaces, work: int | None) -> Document:
    return {
        "text": each.text[:_TEXT_CHARACTERS],
        "time_ns": each.time_ns,
        "size_bytes": each.size_bytes,
        "share_ratio": each.ratio,
        "iterator": each.iterator[:_TEXT_CHARACTERS] or None,
        "node": each.node[:_TEXT_CHARACTERS] or None,
        "source": each.source[:_TEXT_CHARACTERS] or None,
        "links": places.links(each, work),
    }
