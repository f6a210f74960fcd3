"""Apply every rule to the analysis of a run, and put the findings in order. Shows nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from tfprobe.analysis.core.releases import Release, in_names_of
from tfprobe.errors import Missing
from tfprobe.findings import fixes
from tfprobe.findings.collect import analyse
from tfprobe.findings.finding import Evidence, Finding, Gain, Severity, Subject
from tfprobe.findings.fixes import FIXES, JAX, KERAS, PYTORCH, applies
from tfprobe.findings.framework_words import NOT_OF, in_words_of
from tfprobe.findings.rule import (
    ONE_STEP,
    TENSORFLOW,
    LoopAnalysis,
    ProcessAnalysis,
    Rule,
    RunAnalysis,
)
from tfprobe.findings.rules import RULES
from tfprobe.findings.thresholds import DEFAULTS, Thresholds, calibrated
from tfprobe.profile.graph import TracedLoop
from tfprobe.profile.profile import Profile, titled

TOP = 3
# In place of a rule: loops that no rule can judge, because their calls only queue steps.
QUEUED_LOOPS = "queued_loops"
UNKNOWN_RELEASE = Missing("it is not of a single process")
# The gain of these parts is a share of the time of the whole process.
_NOT_OF_A_LOOP = frozenset(
    {"recording", "tracing", "epoch_ends", "garbage_collection", "preparation"}
)
# Without these parts, the rest of a loop on the host gets faster as well, because it no longer
# shares caches, locks and CPUs: in planted programs that were mended, by this part of their share.
_FASTER_REST_RATIO = 0.9
_SLOWS_THE_REST = frozenset(
    {
        "between",
        "callbacks",
        "checkpoints",
        "compute",
        "dispatch",
        "evaluation",
        "garbage_collection",
        "graph",
        "input",
        "sync",
    }
)
_Loop = tuple[str, int | None, int] | tuple[()]
_PartOfLoop = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Unchecked:
    """A rule that could not be applied anywhere in the run, with the reason."""

    rule: str
    reason: str


@dataclass(frozen=True, slots=True)
class Advice:
    """Findings, the most important first, and the rules that lacked data.

    `together` is the gain of following all advice: gains of the same part overlap, so that only the
    largest one of each part counts.
    """

    findings: tuple[Finding, ...]
    unchecked: tuple[Unchecked, ...]
    together: Gain | Missing


def advise(
    profile: Profile,
    traced: Iterable[TracedLoop] = (),
    thresholds: Thresholds = DEFAULTS,
) -> Advice:
    """Return the advice on a run.

    `traced` are loops joined with their graphs and code maps; without them, findings name no scopes
    and no lines of ops.
    """
    return judge(analyse(profile, traced, thresholds), thresholds)


def judge(run: RunAnalysis, thresholds: Thresholds = DEFAULTS) -> Advice:
    """Return the advice that the rules give on a run.

    They compare steps, whose lengths are not known of loops that only queue them.
    """
    undivided = tuple(loop for loop in run.loops if loop.timing.undivided is not None)
    divided = tuple(loop for loop in run.loops if loop.timing.undivided is None)
    run = replace(run, loops=divided, undivided=undivided)
    frameworks = _frameworks_of(run)
    releases = {process.subject: process.release for process in run.processes}
    releases |= {loop.subject: loop.process.release for loop in run.loops}
    analyses: dict[Subject, LoopAnalysis | ProcessAnalysis] = {
        process.subject: process for process in run.processes
    }
    analyses |= {loop.subject: loop for loop in run.loops}
    findings: list[Finding] = []
    unchecked = [
        Unchecked(QUEUED_LOOPS, loop.timing.undivided.reason)
        for loop in undivided[:1]
        if loop.timing.undivided is not None
    ]
    for rule in RULES:
        verdicts = list(rule.check(run, thresholds))
        found = [
            _adjusted(
                replace(verdict, rule=rule.name), analyses.get(verdict.subject), rule, thresholds
            )
            for verdict in verdicts
            if isinstance(verdict, Finding)
        ]
        worded = (
            in_words_of(frameworks[finding.subject], finding)
            if finding.subject in frameworks
            else _in_names(finding, releases.get(finding.subject, UNKNOWN_RELEASE))
            for finding in found
        )
        findings += _merged(
            [
                replace(finding, fixes=_fixes_of(finding, frameworks.get(finding.subject)))
                for finding in worded
                if finding is not None
            ]
        )
        others = [frameworks.get(loop.subject) for loop in run.loops]
        inapplicable = _why_inapplicable(others, rule.name)
        reasons = [verdict.reason for verdict in verdicts if isinstance(verdict, Missing)]
        if inapplicable is not None:
            unchecked.append(Unchecked(rule.name, inapplicable))
        elif verdicts and len(reasons) == len(verdicts):
            unchecked.append(Unchecked(rule.name, reasons[0]))
    ordered = tuple(sorted(findings, key=_order))
    return Advice(ordered, tuple(unchecked), together(ordered))


def _frameworks_of(run: RunAnalysis) -> dict[Subject, str]:
    """Return the framework of each loop, and of each process whose loops are all of one.

    Those of TensorFlow are left out: the rules speak of it.
    """
    of_loops = {loop.subject: loop.framework for loop in run.loops}
    of_processes: dict[Subject, set[str]] = {}
    for loop in run.loops:
        of_processes.setdefault(loop.process.subject, set()).add(loop.framework)
    known = of_loops | {
        subject: names.pop() for subject, names in of_processes.items() if len(names) == 1
    }
    return {subject: name for subject, name in known.items() if name != TENSORFLOW}


def _fixes_of(finding: Finding, framework: str | None) -> tuple[str, ...]:
    """Return the fixes that can be tried for a finding; `framework` is None for TensorFlow's."""
    names = {"pytorch": PYTORCH, "jax": JAX}.get(framework or "", fixes.TENSORFLOW)
    keras = (KERAS,) if finding.subject.kind in fixes.KERAS_KINDS else ()
    # A loader with more workers does not copy any faster.
    rule = "copies_pageable" if finding.part == "copies" else finding.rule
    return tuple(fix.id for fix in FIXES if rule in fix.rules and applies(fix, (names, *keras)))


def _why_inapplicable(frameworks: Sequence[str | None], rule: str) -> str | None:
    """Return why a rule applies to none of these frameworks, None if it does to one."""
    reasons = [NOT_OF.get(framework or TENSORFLOW, {}).get(rule) for framework in frameworks]
    return reasons[0] if reasons and all(reasons) else None


def _adjusted(
    finding: Finding, of: LoopAnalysis | ProcessAnalysis | None, rule: Rule, limits: Thresholds
) -> Finding:
    """Return a finding with severity and gain adjusted to its process, and to how much was traced.

    A loop may be a small part of its process, and a single traced step need not be a usual one.
    """
    process = of.process if isinstance(of, LoopAnalysis) else of
    if process is None or isinstance(finding.gain, Missing):
        return finding
    severity = finding.severity
    if finding.gain.high_ns < limits.wall_ratio * process.wall_ns:
        severity = min(severity, Severity.INFO)
    gain = finding.gain
    is_likely = gain.low_ns and not process.has_accelerator
    if is_likely and finding.part in _SLOWS_THE_REST:
        rest_ns = _FASTER_REST_RATIO * gain.high_ratio * (gain.of_ns - gain.high_ns)
        gain = replace(gain, high_ns=gain.high_ns + round(rest_ns))
    if is_likely:
        gain = calibrated(rule.name, gain)
    evidence = finding.evidence
    if rule.is_of_traces and isinstance(of, LoopAnalysis):
        if len(of.traced_steps) == 1:
            severity = min(severity, Severity.WARNING)
            evidence = (*evidence, ONE_STEP)
        if of.longer_steps is not None:
            severity = min(severity, Severity.INFO)
            evidence = (*evidence, of.longer_steps)
    if isinstance(of, LoopAnalysis) and of.loop_source and not any(e.source for e in evidence):
        # A finding without a line points to where the steps are run.
        evidence = (*evidence, Evidence("its steps run at", source=of.loop_source))
    return replace(finding, severity=severity, evidence=evidence, gain=gain)


def _in_names(finding: Finding, release: Release | Missing) -> Finding:
    """Return a finding whose action uses the names of the TensorFlow that its process runs."""
    return replace(finding, action=in_names_of(release, finding.action))


def top(advice: Advice, count: int = TOP) -> tuple[Finding, ...]:
    """Return the findings for a report of one screen: the first one of each part."""
    first: dict[tuple[Subject, str], Finding] = {}
    for finding in advice.findings:
        first.setdefault((finding.subject, finding.part or finding.rule), finding)
    return tuple(first.values())[:count]


def together(findings: Iterable[Finding]) -> Gain | Missing:
    """Return the gain of all findings: the sum of the largest gain of each part, at most the whole.

    Ranks run at the same time, so only the rank with the largest gain of a part counts. Threads do,
    too, so only the thread with the largest sum counts. Gains without a likely part are not added,
    but the bound is never below one of them. Gains that are not of a loop are left out.
    """
    loops: dict[_Loop, dict[_PartOfLoop, Gain]] = {}
    unlikely: list[Gain] = []
    for finding in findings:
        if isinstance(finding.gain, Missing) or finding.part in _NOT_OF_A_LOOP:
            continue
        if not finding.gain.low_ns:
            unlikely.append(finding.gain)
            continue
        by_part = loops.setdefault(_loop(finding.subject, finding.gain), {})
        key = (finding.subject.kind, finding.subject.name, finding.part or finding.rule)
        if key not in by_part or finding.gain.high_ratio > by_part[key].high_ratio:
            by_part[key] = finding.gain
    if not loops:
        return Missing("no finding has a gain in time")
    likely = max((_sum(by_part.values()) for by_part in loops.values()), key=_bound)
    widest = max((likely, *unlikely), key=_bound)
    return Gain(round(likely.low_ratio * widest.of_ns), widest.high_ns, widest.of_ns)


def _loop(subject: Subject, gain: Gain) -> _Loop:
    """Return what identifies a loop: in effect its thread, with all ranks as one."""
    return () if subject.rank is not None else (subject.host, subject.pid, gain.of_ns)


def _sum(gains: Collection[Gain]) -> Gain:
    """Return the sum of all gains of a loop; those of ranks count as shares of the longest."""
    of_ns = max(gain.of_ns for gain in gains)
    high_ns = min(round(sum(gain.high_ratio for gain in gains) * of_ns), of_ns)
    low_ns = min(round(sum(gain.low_ratio for gain in gains) * of_ns), high_ns)
    return Gain(low_ns, high_ns, of_ns)


def _bound(gain: Gain) -> float:
    return gain.high_ratio


def _order(finding: Finding) -> tuple[int, int, int, str]:
    gain = finding.gain
    if isinstance(gain, Missing):
        return (-finding.severity, 0, 0, finding.rule)
    # By time, not by share: a loop may be a small part of its process.
    return (-finding.severity, -gain.low_ns, -gain.high_ns, finding.rule)


def _merged(findings: list[Finding]) -> Iterator[Finding]:
    """Merge findings about the same loop of several processes into one."""
    groups: dict[tuple[str, str, str], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.title, finding.subject.kind, finding.subject.name), []).append(
            finding
        )
    for group in groups.values():
        first, *others = sorted(group, key=_order)
        if others:
            also = Evidence(f"the same in {_named(other.subject for other in others)}")
            first = replace(first, evidence=(*first.evidence, also))
        yield first


def _named(subjects: Iterable[Subject]) -> str:
    """Name processes by rank if they have one, else by host and pid, each of them once."""
    names = dict.fromkeys(
        titled(
            f"pid {subject.pid}" if subject.rank is None else f"rank {subject.rank}",
            subject.program,
        )
        + (f" on {subject.host}" if subject.rank is None else "")
        for subject in subjects
    )
    return ", ".join(names)
