"""What of a run costs time that could be won, and where each piece of evidence is seen."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from tfprobe.findings import engine
from tfprobe.findings.engine import Advice
from tfprobe.findings.finding import Evidence, Finding, Severity, Subject
from tfprobe.findings.trials import with_measured
from tfprobe.profile.graph import TracedLoop
from tfprobe.profile.profile import Profile
from tfprobe.report.documents.document import Document
from tfprobe.report.documents.findings_document import advice_document, finding_document
from tfprobe.report.text.findings import describe_gain, measured_text, try_command
from tfprobe.runs.trials import trials_of
from tfprobe.web.opened import OpenRun
from tfprobe.web.params import Params
from tfprobe.web.values import shortened

# As many as `tfprobe report` shows: of those that matter the first.
TOP_FINDINGS = 3
_TEXT_CHARACTERS = 1_000
# Fields of evidence that its links are made of.
_IN_LINKS = frozenset({"capture", "command", "op_type", "scope", "step", "steps"})


def document(run: OpenRun, question: Params) -> Document:  # noqa: ARG001 - all have these
    """Return all findings, the most important first, and the rules that had nothing to go by."""
    # Trials come while the run stays as it is: only what is asked of the run itself is kept.
    advice = run.made("advice", lambda: engine.advise(run.profile, _main_loop(run)))
    trials = trials_of(run.profile.run.command, run.folder.root.parent)
    return _document(run, with_measured(advice, trials))


def _document(run: OpenRun, advice: Advice) -> Document:
    places = run.made("evidence places", lambda: EvidencePlaces(run.profile))
    matter = [finding for finding in advice.findings if finding.severity > Severity.INFO]
    return {
        **advice_document(advice),
        "findings": [_finding(finding, places) for finding in advice.findings],
        "top": [advice.findings.index(each) for each in matter[:TOP_FINDINGS]],
        "missing": _lacking(run, advice),
    }


def _main_loop(run: OpenRun) -> tuple[TracedLoop, ...]:
    """Return the sampled work with most time, with its graph and code map; none if none was."""
    for loop in run.loops():
        sampled_loop = run.sampled(loop)
        if isinstance(sampled_loop, TracedLoop):
            return (sampled_loop,)
    return ()


def _lacking(run: OpenRun, advice: Advice) -> str | None:
    """Return why there is little to say, where that is so."""
    if not any(loop.executed for loop in run.profile.loops):
        return "no step has been recorded"
    if not run.profile.captures and advice.unchecked:
        return "no step was traced: only step times and the machine could be looked at"
    return None


def _finding(finding: Finding, places: EvidencePlaces) -> Document:
    """Return a finding with the place of its loop, and its evidence with what it is seen on."""
    loop = places.loop(finding.subject)
    document = shortened(finding_document(finding), _TEXT_CHARACTERS)
    return {
        **document,
        "gain_text": describe_gain(finding),
        "measured": [
            {**measured, "text": measured_text(one)}
            for measured, one in zip(document["measured"], finding.measured, strict=True)
        ],
        "action": [{"text": text, "is_code": is_code} for text, is_code in _action(finding)],
        "work": loop,
        "evidence": [
            {
                **{name: part for name, part in shown.items() if name not in _IN_LINKS},
                "links": places.links(evidence, loop),
            }
            for shown, evidence in zip(document["evidence"], finding.evidence, strict=True)
        ],
    }


def _action(finding: Finding) -> Iterator[tuple[str, bool]]:
    """Yield what to do in parts, each with whether it is code, with the command that tries it."""
    yield from code_parts(finding.action)
    command = try_command(finding)
    if command:
        yield from ((" (", False), (command, True), (")", False))


# Any: numbers and texts.
Link = dict[str, Any]

# What shows on a terminal what a page shows.
_PAGES: Mapping[str, str] = {
    "breakdown": "overview",
    "code": "code",
    "graph": "graph",
    "input": "input",
    "memory": "memory",
    "op": "ops",
    "report": "overview",
    "scope": "scopes",
    "steps": "steps",
    "tiers": "overview",
    "transfers": "transfers",
}
# Addresses stay short; a search finds a name by its beginning, too.
_SOUGHT_CHARACTERS = 500


class EvidencePlaces:
    """Where the loops and captures of a profile are, by the names that evidence has for them."""

    def __init__(self, profile: Profile) -> None:
        """Look them up once."""
        self._processes = profile.processes
        self._loops = [
            (profile.processes[loop.process], loop.kind, loop.name) for loop in profile.loops
        ]
        self._captures = {}
        for capture in profile.captures:
            process = profile.processes[capture.process]
            file = f"{process.host}/{process.folder}/captures/{capture.file}"
            self._captures[file, capture.step] = capture.index

    def loop(self, subject: Subject) -> int | None:
        """Return the place of the loop that a finding is about; None if it is about none."""
        for at, (process, kind, name) in enumerate(self._loops):
            is_there = (process.host, process.pid or None) == (subject.host, subject.pid)
            if is_there and (kind, name) == (subject.kind, subject.name):
                return at
        return None

    def links(self, evidence: Evidence, loop: int | None) -> list[Link]:
        """Return where a piece of evidence is seen, the nearest first."""
        return list(self._links(evidence, loop))

    def _links(self, evidence: Evidence, loop: int | None) -> Iterator[Link]:
        of_loop: dict[str, int | str] = {} if loop is None else {"work": loop}
        if evidence.step is not None:
            yield _link(f"step {evidence.step:,}", "steps", of_loop | {"step": evidence.step})
        capture = self._captures.get((evidence.capture, evidence.step or 0))
        if capture is not None:
            yield _link("its timeline", "timeline", {"capture": capture})
        for step in evidence.steps:
            yield _link(f"step {step:,}", "steps", of_loop | {"step": step})
        file, _, line = evidence.source.rpartition(":")
        # Where no op was made the page of code has nothing: what Python did is text.
        if evidence.node and file and line.isdecimal():
            yield _link(evidence.source, "code", of_loop | {"file": file, "line": int(line)})
        if evidence.op_type:
            yield _link(evidence.op_type, "ops", of_loop | {"find": _short(evidence.op_type)})
        if evidence.scope:
            args = of_loop | {"by": "layer", "at": evidence.scope}
            yield _link(evidence.scope, "scopes", args)
        elif evidence.node:
            args = of_loop | {"by": "name", "find": _short(evidence.node)}
            yield _link(evidence.node, "ops", args)
        if evidence.iterator:
            yield _link("its input", "input", of_loop)
        if evidence.command:
            page = _PAGES.get(shlex.split(evidence.command)[1])
            if page is not None:
                yield _link(evidence.command, page, {} if page == "overview" else of_loop)


def _link(label: str, page: str, args: Mapping[str, int | str]) -> Link:
    return {"label": _short(label), "page": page, "args": dict(args)}


def _short(name: str) -> str:
    return name[:_SOUGHT_CHARACTERS]


_INSIDE = r"(?:[^()]|\((?:[^()]|\([^()]*\))*\))*"
_VALUE = r"(?:'[^']*'|[\w.%-]*[\w%])"
_CODE = re.compile(
    rf"""
    `(?P<quoted>[^`]+)`
  | @?\.?\b[A-Za-z_][\w.]*\({_INSIDE}\)                      # a call: tf.function(...), .numpy()
  | \b[A-Za-z]\w*={_VALUE}                                   # a variable or an argument
  | \b[A-Z][A-Z0-9]*_[A-Z0-9_]+\b                            # the name of a variable
  | @?\b(?:tf|jax|jnp|torch)(?:\.\w+)+                       # a name of a framework
  | (?<![\w-])--\w[\w-]*(?:={_VALUE})?                       # a flag
  | \b[a-z]+(?:_[a-z0-9]+)+\b                                # a name in Python
    """,
    re.VERBOSE,
)


def code_parts(text: str) -> tuple[tuple[str, bool], ...]:
    """Return the parts of a text in order, each with whether it is code; quotes of code go."""
    return tuple(_parts(text))


def _parts(text: str) -> Iterator[tuple[str, bool]]:
    at = 0
    for found in _CODE.finditer(text):
        if found.start() > at:
            yield text[at : found.start()], False
        yield found["quoted"] or found[0], True
        at = found.end()
    if at < len(text):
        yield text[at:], False
